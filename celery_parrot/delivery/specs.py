"""What ``callbacks``, ``failure_callbacks``, ``missed_callbacks`` and ``send_result`` may hold, checked when saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from celery_parrot.delivery import own
from celery_parrot.delivery.channels import CHECKS
from celery_parrot.delivery.fields import Fields
from celery_parrot.delivery.mail import check_result_mail
from celery_parrot.delivery.means import OwnCallback
from celery_parrot.errors import InvalidSchedule

FIELDS: Final = ("callbacks", "failure_callbacks", "missed_callbacks")
MOST: Final = 20
"""Callbacks in one list."""

_MOST_CHARACTERS: Final = 100_000


def check_callbacks(field: str, value: object, registered: Mapping[str, OwnCallback] | None = None) -> None:
    """Whether this is a list of callbacks that can be delivered.

    :param field: which of :data:`FIELDS`. :param registered: the app's own callbacks by name.
    :raises InvalidSchedule: naming the callback and its field, the value (never a secret) and what would be right.
    """
    if value is None:
        return
    if not isinstance(value, list | tuple):
        raise InvalidSchedule(field, "…", 'must be a list of objects such as {"type": "webhook", "url": "https://…"}')
    if len(value) > MOST:
        raise InvalidSchedule(field, "…", f"has {len(value)} callbacks; at most {MOST} are kept")
    for index, spec in enumerate(value):
        _check_one(f"{field}[{index}]", spec, registered or {})
    _check_size(field, value)


def check_send_result(value: object) -> None:
    """Whether this is a mail that can be sent; empty is none. Raises InvalidSchedule as :func:`check_callbacks`."""
    if value is None or value == {}:
        return
    if not isinstance(value, Mapping):
        raise InvalidSchedule("send_result", "…", 'must be an object such as {"recipients": ["ops@example.com"]}')
    check_result_mail(Fields("send_result", value))
    _check_size("send_result", value)


def check_all(fields: Mapping[str, Any], registered: Mapping[str, OwnCallback] | None = None) -> None:
    """Those of a schedule's fields that are about deliveries. Raises InvalidSchedule."""
    for field in FIELDS:
        check_callbacks(field, fields.get(field), registered)
    check_send_result(fields.get("send_result"))


def _check_one(at: str, given: object, registered: Mapping[str, OwnCallback]) -> None:
    spec = {"type": given} if isinstance(given, str) else given  # one that needs nothing else
    if not isinstance(spec, Mapping):
        raise InvalidSchedule(at, "…", 'must be an object such as {"type": "webhook", "url": "https://…"}')
    type_ = spec.get("type")
    known = [*CHECKS, *registered]
    if not isinstance(type_, str) or type_ not in known:
        close = get_close_matches(str(type_), known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InvalidSchedule(
            f"{at}.type", type_, f"{hint}It must be one of {', '.join(known)}"
            + ("" if registered else ", or the name of a callback that the app registers (@parrot.callback)"),
        )  # fmt: skip
    fields = Fields(at, spec)
    if type_ in CHECKS:
        CHECKS[type_](fields)
    else:
        own.check(fields, registered[type_])


def _check_size(field: str, value: object) -> None:
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidSchedule(field, "…", f"is not JSON: {exc}") from None
    if size > _MOST_CHARACTERS:
        raise InvalidSchedule(field, "…", f"has {size} characters as JSON; at most {_MOST_CHARACTERS} are kept")
