"""The fields of a schedule as options of a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from celery_parrot.model.fields import FIELDS, Field

F = TypeVar("F", bound=Callable[..., Any])

_ALSO = {"timezone": "--tz", "schedule_type": "--type", "schedule_config": "--config"}
_METAVAR = {"object": "JSON", "array": "JSON", "boolean": "true|false", "integer": "N", "number": "SECONDS"}


def field_options(*, without: tuple[str, ...] = ()) -> Callable[[F], F]:
    """An option for every field but those ``without``; the command takes them as keyword arguments."""

    def wrap(function: F) -> F:
        for field in reversed(FIELDS):
            if field.name not in without:
                names = [f"--{field.name.replace('_', '-')}", *([_ALSO[field.name]] if field.name in _ALSO else [])]
                option = click.option(*names, field.name, metavar=_metavar(field), help=field.text)
                function = option(function)
        return function

    return wrap


def given(options: Mapping[str, object], schedule_type: str | None = None) -> dict[str, Any]:
    """The fields among ``options`` that somebody gave, as values.

    :param schedule_type: that of the schedule, where the options do not say: a config may be in its short form.
    :raises InvalidSchedule: for a text that is no value of its field.
    """
    from celery_parrot.client import value_of

    fields = {name: str(text) for name, text in options.items() if text is not None}
    found = {name: value_of(name, text) for name, text in fields.items() if name != "schedule_config"}
    if "schedule_config" in fields:
        found["schedule_config"] = config_of(fields["schedule_config"], found.get("schedule_type", schedule_type))
    return found


def config_of(text: str, schedule_type: object) -> Mapping[str, Any]:
    """JSON, or the short form of the type, as ``preview`` takes it. Raises InvalidSchedule."""
    from celery_parrot.cli.spec import read_spec
    from celery_parrot.client import value_of

    if isinstance(schedule_type, str) and not text.lstrip().startswith("{"):
        return read_spec(schedule_type, text)
    config: Mapping[str, Any] = value_of("schedule_config", text)
    return config


def assigned(pairs: tuple[str, ...]) -> dict[str, str]:
    """``field=value`` pairs as options. Raises click's UsageError for a text that is none."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r} is not FIELD=VALUE, such as timezone=Europe/Madrid.")
        found[name] = value
    return found


def _metavar(field: Field) -> str:
    if "enum" in field.schema:
        return "|".join("null" if each is None else each for each in field.schema["enum"])
    (kind, *_) = field.types
    return _METAVAR.get(kind, "TEXT")
