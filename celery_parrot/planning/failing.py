"""When failures disable a schedule, and what is said of it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

HELD_BY_FAILURES: Final = "failures"
"""Why a disabled schedule is held."""

_ERROR_SHOWN: Final = 200


def disables(failures: int, bound: int) -> bool:
    """Whether so many failures in a row are too many. ``bound``: 0 for any number is fine."""
    return 0 < bound <= failures


def disabled_note(failures: int, since: datetime | None, error: str | None) -> str:
    """For people: why the schedule does not fire. ``since``: when the first failure of the row ended."""
    began = "" if since is None else f" since {since.isoformat(timespec='seconds')}"
    last = (error or "").strip()
    if len(last) > _ERROR_SHOWN:
        last = last[: _ERROR_SHOWN - 1] + "…"
    text = f"{failures} failure{'' if failures == 1 else 's'} in a row{began}"
    return f"{text}, last: {last}" if last else text
