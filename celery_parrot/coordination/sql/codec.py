"""Values as JSON text and back, by their dataclass fields.

What has its default is left out, and an unknown name is ignored when reading, so that processes of two releases can
share a database as long as neither gives an old name another meaning.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from celery_parrot.errors import Unreachable

T = TypeVar("T")
Plain = Callable[[Any], Any]

_PACKERS: dict[Any, Plain] = {}
_READERS: dict[Any, Plain] = {}


def pack(value: Any) -> str:
    """A dataclass as text; equal values give equal texts."""
    return json.dumps(_packer(type(value))(value), separators=(",", ":"), sort_keys=True)


def unpack(cls: type[T], text: str) -> T:
    """What :func:`pack` made of one.

    :raises Unreachable: if it is nothing of that kind: somebody else wrote there.
    """
    try:
        made: T = _reader(cls)(json.loads(text))
        return made
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unreachable(f"database: a stored {cls.__name__} cannot be read: {type(error).__name__}") from error


# --- writing ---


def _packer(cls: Any) -> Plain:
    if cls not in _PACKERS:
        _PACKERS[cls] = _make_packer(cls)
    return _PACKERS[cls]


def _make_packer(cls: Any) -> Plain:
    fields = [(field.name, _writer(hint), *_default(field)) for field, hint in _fields(cls)]

    def write(value: Any) -> dict[str, Any]:
        made = {}
        for name, plain, has_default, default in fields:
            item = getattr(value, name)
            if not has_default or item != default:
                made[name] = plain(item)
        return made

    return write


def _writer(hint: Any) -> Plain:
    """How a value of this type is written. ``None`` is written as it is."""
    hint, items = _look(hint)
    if hint is datetime:
        return lambda value: None if value is None else value.isoformat()
    if hint is tuple:
        if len(items) == 2 and items[1] is Ellipsis:
            item = _writer(items[0])
            return lambda value: None if value is None else [item(one) for one in value]
        each = [_writer(one) for one in items]
        return lambda value: None if value is None else [w(one) for w, one in zip(each, value, strict=True)]
    if hint is dict:
        return lambda value: None if value is None else dict(value)
    if dataclasses.is_dataclass(hint):
        write = _packer(hint)
        return lambda value: None if value is None else write(value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return lambda value: None if value is None else value.value
    return _as_it_is


# --- reading ---


def _reader(cls: Any) -> Plain:
    if cls not in _READERS:
        _READERS[cls] = _make_reader(cls)
    return _READERS[cls]


def _make_reader(cls: Any) -> Plain:
    fields = {field.name: _parser(hint) for field, hint in _fields(cls)}

    def read(plain: Any) -> Any:
        return cls(**{name: fields[name](item) for name, item in plain.items() if name in fields})

    return read


def _parser(hint: Any) -> Plain:
    hint, items = _look(hint)
    if hint is datetime:
        return lambda plain: None if plain is None else datetime.fromisoformat(plain)
    if hint is tuple:
        if len(items) == 2 and items[1] is Ellipsis:
            item = _parser(items[0])
            return lambda plain: None if plain is None else tuple(item(one) for one in plain)
        each = [_parser(one) for one in items]
        return lambda plain: None if plain is None else tuple(p(one) for p, one in zip(each, plain, strict=True))
    if dataclasses.is_dataclass(hint):
        read = _reader(hint)
        return lambda plain: None if plain is None else read(plain)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        kind = hint
        return lambda plain: None if plain is None else kind(plain)
    return _as_it_is


# --- types ---


def _fields(cls: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _default(field: dataclasses.Field[Any]) -> tuple[bool, Any]:
    if field.default is not dataclasses.MISSING:
        return True, field.default
    if field.default_factory is not dataclasses.MISSING:
        return True, field.default_factory()
    return False, None


def _look(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type without ``| None``, and what is in it."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (hint,) = (one for one in typing.get_args(hint) if one is not type(None))
    origin = typing.get_origin(hint)
    if origin is None:
        return hint, ()
    return (dict if issubclass(origin, Mapping) else origin), typing.get_args(hint)


def _as_it_is(value: Any) -> Any:
    return value
