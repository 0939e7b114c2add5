"""Schedules in YAML or JSON, as files hold them.

YAML here is that of version 1.2: ``on`` and ``yes`` are texts, ``9:30`` is one too, and what looks like a date is not
made one. JSON is YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

import click
import yaml
from yaml.nodes import MappingNode

_RESOLVED = (
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+)$"),
        list("-+0123456789."),
    ),
)

_MOST: Final = 10_000_000
"""Values in one file: a few aliases of aliases stand for more than any machine holds."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the library's own name and form

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the library's, but two keys of one name are an error: one of them would be lost."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key.value, str):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - the library's own name and form


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Line ends of other kinds are line ends to a reader, unless they are escaped; only quotes can do that.
    style = '"' if any(not each.isprintable() and each != "\n" for each in text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
for _tag, _pattern, _first in _RESOLVED:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)


def read(text: str, where: str) -> tuple[list[Any], bool]:
    """The schedules in ``text``, and whether it is a list of them: ``schedules: […]``, a list, several YAML documents;
    or a single one.

    :param where: what it is, for a sentence.
    :raises click.ClickException: if it is neither YAML nor JSON, or holds nothing.
    """
    try:
        documents = [each for each in yaml.load_all(text, _Loader) if each is not None]
        _weight(documents, {})
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as exc:  # of values with tags, too
        mark = getattr(exc, "problem_mark", None)
        line = "" if mark is None else f" in line {mark.line + 1}"
        problem = getattr(exc, "problem", None) or " ".join(str(exc).split())
        raise click.ClickException(f"{where} is not YAML or JSON{line}: {problem}.") from None
    if not documents:
        raise click.ClickException(f"{where} holds nothing; where no schedule is meant, write: schedules: []")
    found: list[Any] = []
    for document in documents:
        if isinstance(document, Mapping) and "schedules" in document:
            unknown = sorted(str(key) for key in document if key != "schedules")
            if unknown or not isinstance(document["schedules"], list):
                raise click.ClickException(f"{where}: beside 'schedules', a list, there is nothing else to say.")
            found += document["schedules"]
        elif isinstance(document, list):
            found += document
        else:
            found.append(document)
    single = len(documents) == 1 and isinstance(documents[0], Mapping) and "schedules" not in documents[0]
    return found, not single


def _weight(value: Any, known: dict[int, int]) -> int:
    """How many values there are in it, an alias counted as all that it stands for. Raises ValueError for too many, and
    for one that holds itself.

    :param known: that of each object; 0 for those that are being counted.
    """
    if not isinstance(value, dict | list | tuple):
        return 1
    weight = known.setdefault(id(value), -1)
    if weight == 0:
        raise ValueError("something in it holds itself")
    if weight < 0:
        known[id(value)] = 0
        inside = value.values() if isinstance(value, dict) else value
        known[id(value)] = weight = 1 + sum(_weight(each, known) for each in inside)
        if weight > _MOST:
            raise ValueError(f"with its aliases it holds more than {_MOST:,} values")
    return weight


def read_file(file: IO[str]) -> tuple[list[Any], bool]:
    """As :func:`read`, of a file that click opened."""
    return read(file.read(), "Standard input" if file.name in ("-", "<stdin>") else str(file.name))


def write(documents: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """The schedules as YAML, piece by piece; ``read`` gives the same back."""
    yield "schedules:"
    empty = True
    for document in documents:
        empty = False
        text = yaml.dump(
            [dict(document)], Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120
        )
        yield text.rstrip("\n")
    if empty:
        yield "  []"
