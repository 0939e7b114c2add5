"""Reading settings from an app and the environment, one at a time, with complaints that name them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from celery import Celery

from celery_parrot.errors import ConfigurationError
from celery_parrot.model.secrets import mask

ENVIRONMENT: Mapping[str, str] = {
    "parrot_coordination": "SCHEDULER_COORDINATION",
    "parrot_redis_db": "SCHEDULER_REDIS_DB",
    "parrot_fire_lock_ttl": "SCHEDULER_FIRE_LOCK_TTL",
    "parrot_run_now_lock_ttl": "SCHEDULER_RUN_NOW_LOCK_TTL",
    "parrot_max_consecutive_failures": "SCHEDULER_MAX_CONSECUTIVE_FAILURES",
    "parrot_alert_recipients": "SCHEDULER_ALERT_RECIPIENTS",
}
"""Environment names that are read when a setting is absent."""

_SECRET_NAME = re.compile(r"(?i)passw(?:or)?d|secret|token|credential")


def shown(value: object) -> object:
    """``value`` as it may appear in an error or a log: no credentials."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: "**" if _SECRET_NAME.search(str(key)) else shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value


def closest(name: str, known: Iterable[str]) -> str:
    """``Did you mean 'x'? `` for the known name most like ``name``, or nothing."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"Did you mean {found[0]!r}? " if found else ""


def refuse(key: str, value: object, reason: str, fix: str) -> NoReturn:
    """Raise the :exc:`ConfigurationError` for one setting, credentials masked."""
    raise ConfigurationError(key, shown(value), reason, fix)


class Source:
    """The ``parrot_*`` settings of one app.

    A setting is looked up as Celery looks up its own: in lower case, and with the namespace of
    ``config_from_object(…, namespace="CELERY")`` as ``CELERY_PARROT_NAME``. None counts as absent.
    """

    def __init__(self, app: Celery, environ: Mapping[str, str] | None = None) -> None:
        self._conf = app.conf
        self._prefix = (getattr(app, "namespace", None) or "").rstrip("_").lower()
        self._environ = os.environ if environ is None else environ

    def raw(self, key: str) -> Any:
        """The setting, else the environment's text, else None."""
        value = self._conf.get(key)
        if value is None:
            value = self._conf.get(key.upper())
        if value is None and key in ENVIRONMENT:
            value = self._environ.get(ENVIRONMENT[key]) or None
        return value

    def celery(self, key: str) -> Any:
        """A setting of Celery's own."""
        return self._conf.get(key)

    def label(self, key: str) -> str:
        """The setting's name, with that of the environment variable if the value came from there."""
        if key in ENVIRONMENT and self._conf.get(key) is None and self._environ.get(ENVIRONMENT[key]):
            return f"{key} [{ENVIRONMENT[key]}]"
        return key

    def names(self) -> set[str]:
        """The ``parrot_*`` settings that are set in the app, whether known or not, without the namespace."""
        found: set[str] = set()
        for key in self._conf:
            name = str(key).lower()
            if self._prefix and name.startswith(self._prefix + "_"):
                name = name[len(self._prefix) + 1 :]
            if name.startswith("parrot_"):
                found.add(name)
        return found

    def number(self, key: str, default: float, *, zero: bool = False) -> float:
        """A finite number of seconds (or days); more than 0, or from 0 on with ``zero``."""
        value = self.raw(key)
        if value is None:
            return default
        return number(self.label(key), value, zero=zero)

    def days(self, key: str, default: float) -> float:
        """A number of days, more than 0 and at most a century."""
        found = self.number(key, default)
        if found > _MOST_DAYS:
            refuse(self.label(key), found, f"must be at most {_MOST_DAYS:,.0f} days", "Set fewer.")
        return found

    def integer(self, key: str, default: int, *, least: int = 1) -> int:
        """A whole number of at least ``least``."""
        value = self.raw(key)
        if value is None:
            return default
        found = number(self.label(key), value, zero=True)
        if found != int(found) or found < least:
            refuse(self.label(key), value, f"must be a whole number of at least {least}", "Set one, or remove it.")
        return int(found)

    def flag(self, key: str) -> bool:
        """True or False, False if absent; 0 and 1 are taken as such."""
        value = self.raw(key)
        if value is None:
            return False
        if value not in (True, False):
            refuse(self.label(key), value, "must be True or False", "Set one of them, or remove it.")
        return bool(value)

    def port(self, key: str) -> int | None:
        """A TCP port, None if absent."""
        if self.raw(key) is None:
            return None
        found = self.integer(key, 0)
        if found > 65535:
            refuse(self.label(key), found, "is no TCP port", "Set one from 1 to 65535, or remove it.")
        return found

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of ``choices``, in any case."""
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        hint = closest(str(value).lower(), choices)
        refuse(self.label(key), value, "is not known here", f"{hint}Use one of {', '.join(choices)}.")

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A dictionary, empty if absent."""
        value = self.raw(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            refuse(self.label(key), value, "must be a dictionary", "Set a dictionary, or remove it.")
        return value


MOST = 1e9
"""Thirty years in seconds. In milliseconds and added to an instant it still is a time that every backend can hold."""

_MOST_DAYS = 36_500.0


def number(key: str, value: object, *, zero: bool = False) -> float:
    """``value`` as a number above 0 (from 0 on with ``zero``) and at most :data:`MOST`. Raises ConfigurationError
    naming ``key``."""
    found: float | None = None
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = None
    least = "of at least 0" if zero else "above 0"
    if found is None or not math.isfinite(found) or found < 0 or (found == 0 and not zero):
        refuse(key, value, f"must be a number {least}", f"Set a number {least}, or remove it for the default.")
    if found > MOST:
        refuse(key, value, f"must be at most {MOST:,.0f}", "Set a smaller number, or remove it for the default.")
    return found
