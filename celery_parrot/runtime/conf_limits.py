"""Limits in the settings: named capacities that every process of one scheduler must keep."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from celery_parrot.runtime.conf_source import Source, number, refuse

LONGEST_NAME = 255


def needs_coordinator(key: str, value: object, coordination: str) -> None:
    """A limit that nobody would keep is never accepted silently. Raises ConfigurationError."""
    if coordination == "none":
        refuse(
            key, value, "is a limit, and limits need a coordinator that all beats and workers share; "
            "parrot_coordination is 'none'",
            "Set parrot_redis_url (coordination 'redis') or parrot_coordination = 'db', or remove the limit.",
        )  # fmt: skip


def read_groups(source: Source, coordination: str) -> Mapping[str, int]:
    """``parrot_exclusion_groups``: capacity by name."""
    key = source.label("parrot_exclusion_groups")
    given = source.raw("parrot_exclusion_groups")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        refuse(key, given, "must be a dictionary of capacities", "Set e.g. {'gpu': 2}, or remove it.")
    found = {group_name(f"{key}[{name!r}]", name): capacity(f"{key}[{name!r}]", value) for name, value in given.items()}
    if found:
        needs_coordinator(key, given, coordination)
    return found


def read_slots(source: Source, coordination: str) -> int | None:
    """``parrot_max_concurrent``, None where any number of fires may be in flight."""
    value = source.raw("parrot_max_concurrent")
    if value is None:
        return None
    found = capacity(source.label("parrot_max_concurrent"), value)
    needs_coordinator(source.label("parrot_max_concurrent"), value, coordination)
    return found


def capacity(key: str, value: object) -> int:
    """A whole number of at least 1. Raises ConfigurationError naming ``key``."""
    found = number(key, value, zero=True)
    if found != int(found) or found < 1:
        refuse(key, value, "must be a whole number of at least 1", "Set one, or remove it for no limit.")
    return int(found)


def group_name(key: str, value: object) -> str:
    """The name of an exclusion group. Raises ConfigurationError naming ``key``."""
    if (reason := bad_name(value)) is not None:
        refuse(key, value, reason, "Name the group with a short text, e.g. 'gpu'.")
    return str(value)


def bad_name(value: object) -> str | None:
    """Why this is no name of a group, or None."""
    if not isinstance(value, str) or not value.strip():
        return "must be a text that is not empty"
    if len(value) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} characters"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        return "must not contain control characters"
    return None
