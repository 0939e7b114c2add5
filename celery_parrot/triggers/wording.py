"""English for people: what a schedule does, in which zone, and what clock changes do to it."""

from __future__ import annotations

from collections.abc import Sequence

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


def clock_words(clock: WallClock) -> str:
    """The zone and the DST class of ``clock``."""
    key = clock.zone.key
    if clock.zone.fixed:
        return key
    if clock.continuous:
        return f"{key}, continuous: runs on in real time when clocks change"
    return f"{key}, wall: {_GAP[clock.gap]}, {_FOLD[clock.fold]}"


def sentence(what: str, clock: WallClock) -> str:
    """``what`` with zone and DST class, as one sentence."""
    return f"{what} ({clock_words(clock)})."


def cron_words(expr: str, seconds: str, intersection: bool) -> str:
    """A cron expression in words, by cron-descriptor where it knows the grammar, with the rule of the day fields."""
    words = _descriptor(expr, seconds) or f"As cron {expr!r} says"
    fields = expr.split(" ")
    if seconds:
        fields.pop(0 if seconds == "first" else -1)
    day, weekday = fields[2], fields[4]
    if day == "*" or weekday == "*":
        return words
    if intersection or day.startswith("*") or weekday.startswith("*"):
        return f"{words}; both the day of the month and the weekday must match"
    return f"{words}; either the day of the month or the weekday must match"


def _descriptor(expr: str, seconds: str) -> str:
    if "h" in expr.replace("thu", "").replace("march", ""):
        return ""
    # Imported here: it reads its translations, and only people who ask for a description need it.
    from cron_descriptor import FormatError, Options, get_description

    options = Options()
    options.use_24hour_time_format = True
    if seconds == "last":
        expr = " ".join((expr.split(" ")[-1], *expr.split(" ")[:-1]))
    try:
        return str(get_description(expr.upper(), options)).rstrip(".")
    except (FormatError, ValueError, LookupError):
        return ""


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def series(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
