"""English for people: what a schedule does, in which zone, and what clock changes do to it."""

from __future__ import annotations

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
    if key == "UTC" or key.startswith("UTC"):
        return key
    if clock.continuous:
        return f"{key}, continuous: runs on in real time when clocks change"
    return f"{key}, wall: {_GAP[clock.gap]}, {_FOLD[clock.fold]}"


def sentence(what: str, clock: WallClock) -> str:
    """``what`` with zone and DST class, as one sentence."""
    return f"{what} ({clock_words(clock)})."


def cron_sentence(expr: str, seconds: str, clock: WallClock) -> str:
    """A cron expression in words."""
    return sentence(_cron_words(expr, seconds), clock)


def _cron_words(expr: str, seconds: str) -> str:
    return f"Cron {expr}"
