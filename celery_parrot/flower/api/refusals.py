"""What the client refuses, as answers: one status and one type for each of its exceptions."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

from celery_parrot.client import without_secrets
from celery_parrot.errors import (
    AlreadyRunning,
    ConfigurationError,
    Conflict,
    FireNotFound,
    GroupNotFound,
    InvalidSchedule,
    MemoryLost,
    ParrotError,
    ScheduleExists,
    ScheduleNotFound,
    Unreachable,
    shortened,
)
from celery_parrot.flower.bridge import Refused
from celery_parrot.flower.desk import NoAnswer
from celery_parrot.model.plain import plain
from celery_parrot.model.secrets import mask
from celery_parrot.runtime.config import Settings
from celery_parrot.runtime.reach import out_of_reach

_SHOWN: Final = 200


def refusal(error: ParrotError, settings: Settings | None) -> Refused:
    """The answer to what raised this. :param settings: of the app, where they can be read."""
    match error:
        case InvalidSchedule():
            return invalid(error.field, error.value, error.reason)
        case ScheduleNotFound():
            return Refused(404, "not_found", sentence(error), name=error.name, closest=list(error.closest))
        case GroupNotFound():
            return Refused(404, "not_found", sentence(error), name=error.name, closest=list(error.closest))
        case FireNotFound():
            return Refused(404, "not_found", sentence(error), name=error.name, fire=error.fire_id)
        case ScheduleExists():
            return Refused(409, "exists", sentence(error), name=error.name, store=error.store)
        case Conflict():
            return Refused(
                409, "conflict", sentence(error), name=error.name, version=error.version, current=error.current
            )
        case AlreadyRunning():
            return Refused(
                409, "already_running", sentence(error), name=error.name, held_by=error.held_by,
                since=plain(error.since),
            )  # fmt: skip
        case NoAnswer():
            return Refused(503, "unreachable", sentence(error))
        case Unreachable() if settings is not None:
            return Refused(503, "unreachable", mask(out_of_reach(settings, error)))
        case Unreachable() | MemoryLost():
            return Refused(503, "unreachable", mask(sentence(error)))
        case ConfigurationError():
            return Refused(503, "misconfigured", mask(sentence(error)))
    return Refused(409, "refused", sentence(error))


def invalid(field: str, value: object, reason: str, **more: Any) -> Refused:
    """422, with the field at fault, what it holds and what would be right."""
    error = InvalidSchedule(field, value, reason)
    shown = without_secrets(field, value)
    if shown != value:
        error = InvalidSchedule(field, shown, reason)
    return Refused(422, "invalid", sentence(error), field=field, value=_short(shown), reason=reason, **more)


def unknown(what: str, name: str, value: object, known: Any) -> Refused:
    """422 for a name that nobody knows, with the closest ones. :param what: ``field`` or ``parameter``."""
    names = sorted(known)
    close = get_close_matches(name, names, n=3)
    if close:
        hint = f"did you mean {' or '.join(map(repr, close))}?"
    else:
        hint = f"there is {', '.join(names)}" if names else "there are none"
    return invalid(name, value, f"unknown {what}; {hint}", closest=close)


def sentence(error: BaseException) -> str:
    """What it says, on one line."""
    text = " ".join(str(error).encode("utf-8", "replace").decode().split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _short(value: object) -> Any:
    """As JSON; what is long, as a short text."""
    try:
        shown = plain(value)
        text = shown if isinstance(shown, str) else repr(shown)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"
    return shown if len(text) <= _SHOWN else shortened(text, _SHOWN)
