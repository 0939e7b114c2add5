"""English for people: what a schedule does, in which zone, and what clock changes do to it."""

from __future__ import annotations

from collections.abc import Sequence

from . import cron_fields
from .wall import WallClock

_GAP = {
    "next_valid": "a time left out when clocks go forward is made up for right after",
    "skip": "a time left out when clocks go forward is skipped",
}
_FOLD = {
    "first": "a time shown twice counts the first time",
    "last": "a time shown twice counts the second time",
    "both": "a time shown twice counts both times",
}


def _clock_words(clock: WallClock) -> str:
    """The zone and the DST class of ``clock``."""
    key = clock.zone.key
    if clock.zone.fixed:
        return key
    if clock.continuous:
        return f"{key}, continuous: runs on in real time when clocks change"
    return f"{key}, wall: {_GAP[clock.gap]}, {_FOLD[clock.fold]}"


def sentence(what: str, clock: WallClock) -> str:
    """``what`` with zone and DST class, as one sentence."""
    return f"{what} ({_clock_words(clock)})."


def cron_words(expr: str, seconds: str, intersection: bool) -> str:
    """A cron expression in words, by cron-descriptor where it gets it right, with what is easily overlooked."""
    parts = expr.split(" ")
    second = parts.pop(0 if seconds == "first" else -1) if seconds else "0"
    words = _descriptor(second, parts) or f"As cron {expr!r} says"
    for part, size, what in (
        (parts[0], 60, "minutes start over every hour"),
        (parts[1], 24, "hours start over at midnight"),
    ):
        if part.startswith("*/") and part[2:].isdigit() and size % int(part[2:]):
            words += f"; the {what}"
    day, weekday = parts[2], parts[4]
    if day == "*" or weekday == "*":
        return words
    if intersection or day.startswith("*") or weekday.startswith("*"):
        return f"{words}; both the day of the month and the weekday must match"
    return f"{words}; either the day of the month or the weekday must match"


def _descriptor(second: str, parts: Sequence[str]) -> str:
    """The words of cron-descriptor; empty for what it does not know."""
    if any(map(_beyond, cron_fields.KINDS, (second, *parts))):
        return ""
    # Imported here: it reads its translations, and only people who ask for a description need it.
    from cron_descriptor import FormatError, Options, get_description

    options = Options()
    options.use_24hour_time_format = True
    try:
        return str(get_description(" ".join((second, *parts) if second != "0" else parts).upper(), options)).rstrip(".")
    except (FormatError, ValueError, LookupError):
        return ""


def _beyond(kind: cron_fields.Kind, part: str) -> bool:
    """Whether cron-descriptor gets ``part`` wrong: H, a list with L, W or #, L5, a stepped single weekday."""
    field = cron_fields.parse(kind, part)
    stepped = kind is cron_fields.DAY_OF_WEEK and "/" in part and not part.startswith("*")
    return field.hashed or stepped or (not field.plain and ("," in part or (part.startswith("l") and part != "l")))


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def series(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
