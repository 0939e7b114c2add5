"""Reads one specification field by field. Every complaint names the field, its value and what would be right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from email.errors import MessageError
from email.headerregistry import Address
from typing import Any, Final, NoReturn

from celery_parrot.delivery import templates
from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.secrets import mask

_MOST_RECIPIENTS: Final = 100
_ADDRESS = re.compile(
    r"[^\s@<>\"(),:;\\\[\]\x00-\x1f\x7f-\U0010ffff]+@[A-Za-z0-9.-]+|[^\s@<>\"(),:;]+@\[[0-9A-Fa-f.:]+\]"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_TEXT: Final = 2000


class Fields:
    """One callback or mail, as given.

    :param at: how a person calls it, e.g. ``callbacks[1]``.
    """

    def __init__(self, at: str, given: Mapping[str, Any]) -> None:
        self.at, self.given = at, given

    def refuse(self, name: str, reason: str, *, hidden: bool = False) -> NoReturn:
        """Raise InvalidSchedule for one field. ``hidden``: its value is a secret."""
        value = self.given.get(name)
        shown = "…" if hidden else mask(value) if isinstance(value, str) else value
        raise InvalidSchedule(f"{self.at}.{name}", shown, reason)

    def only(self, *names: str) -> None:
        """No other fields than these."""
        for name in self.given:
            if name not in names:
                close = get_close_matches(str(name), names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(names))}"
                raise InvalidSchedule(f"{self.at}.{name}", "…", f"is not known here; {hint}")

    def text(self, name: str, *, required: bool = False, hidden: bool = False) -> str | None:
        """A text of one line."""
        value = self.given.get(name)
        if value is None:
            if required:
                self.refuse(name, "is required")
            return None
        if not isinstance(value, str) or not value.strip():
            self.refuse(name, "must be a text that is not empty", hidden=hidden)
        if _CONTROL.search(value):
            self.refuse(name, "must not contain control characters", hidden=hidden)
        if len(value) > _LONGEST_TEXT:
            self.refuse(name, f"is longer than {_LONGEST_TEXT} characters", hidden=hidden)
        return value

    def texts(self, name: str, *, hidden: bool = False) -> list[str]:
        """A text or a list of texts; at least one."""
        value = self.given.get(name)
        many = value if isinstance(value, list | tuple) else [value]
        if not many or not all(isinstance(one, str) and one.strip() and not _CONTROL.search(one) for one in many):
            self.refuse(name, "must be a text, or a list of texts", hidden=hidden)
        return list(many)

    def template(self, name: str, *, required: bool = False) -> str | None:
        """A text with ``$name`` in it."""
        value = self.given.get(name)
        if value is None:
            if required:
                self.refuse(name, "is required")
            return None
        if not isinstance(value, str):
            self.refuse(name, "must be a text")
        if reason := templates.fault(value):
            self.refuse(name, reason)
        return value

    def flag(self, name: str) -> None:
        """True or false, if given."""
        if not isinstance(self.given.get(name, False), bool):
            self.refuse(name, "must be true or false")

    def seconds(self, name: str, most: float) -> None:
        """Seconds above 0, if given."""
        value = self.given.get(name)
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            self.refuse(name, f"must be a number of seconds, above 0 and at most {most:g}")

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object that JSON can hold, empty if absent."""
        value = self.given.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.refuse(name, "must be an object with text keys", hidden=True)
        self._json(name)
        return value

    def sequence(self, name: str) -> Sequence[Any]:
        """A list that JSON can hold, empty if absent."""
        value = self.given.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self.refuse(name, "must be a list", hidden=True)
        self._json(name)
        return value

    def recipients(self, *names: str) -> None:
        """Mail addresses under exactly one of these names: a text (commas between several) or a list."""
        given = [name for name in names if self.given.get(name) not in (None, "", [], ())]
        if not given:
            self.refuse(names[0], "is required: who gets the mail")
        if len(given) > 1:
            self.refuse(given[1], f"says the same as {given[0]}: give one of the two")
        value = self.given[given[0]]
        try:
            found = addresses(value)
        except ValueError as exc:
            self.refuse(given[0], str(exc))
        if len(found) > _MOST_RECIPIENTS:
            self.refuse(given[0], f"has more than {_MOST_RECIPIENTS} addresses")

    def all_json(self) -> None:
        """Nothing in it that JSON cannot hold."""
        for name in self.given:
            self._json(name)

    def _json(self, name: str) -> None:
        try:
            json.dumps(self.given[name], allow_nan=False)
        except (TypeError, ValueError, RecursionError) as exc:
            self.refuse(name, f"is not JSON: {exc}", hidden=True)


def addresses(value: object) -> tuple[str, ...]:
    """Mail addresses out of a text with commas, or a list. Each once, in order.

    :raises ValueError: saying what is wrong, for no address or one that is none.
    """
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("must be a mail address or a list of them")
    found = dict.fromkeys(part.strip() for part in parts if part.strip())
    if not found:
        raise ValueError("names no mail address")
    for address in found:
        if not _is_address(address):
            raise ValueError(f"{address!r} is no mail address; plain ones are taken, such as ops@example.com")
    return tuple(found)


def _is_address(text: str) -> bool:
    if len(text) > 254 or not _ADDRESS.fullmatch(text):
        return False
    try:
        Address(addr_spec=text)
    except (ValueError, IndexError, MessageError):
        return False
    return True
