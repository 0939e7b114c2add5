"""Instants as whole seconds since 1970-01-01T00:00Z, and back.

The rest of the room counts in integers: they neither overflow at the ends of the calendar nor compare wrongly inside
a repeated hour.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_ORDINAL = EPOCH.toordinal()
DAY = 86_400
MICRO = 1_000_000
MIN_SECOND = -62_135_596_800
MAX_SECOND = 253_402_300_799
FIFTY_YEARS = 50 * 366 * DAY
"""How far a search looks before it says that nothing more will come, in seconds."""

_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def seconds_of(t: datetime) -> int:
    """The whole second that aware ``t`` lies in.

    :raises TypeError: if ``t`` is naive.
    """
    since = t - EPOCH
    return since.days * DAY + since.seconds


def micros_of(t: datetime) -> int:
    """Microseconds since the epoch of aware ``t``.

    :raises TypeError: if ``t`` is naive.
    """
    return (t - EPOCH) // _MICROSECOND


def utc(t: datetime) -> datetime:
    """Aware ``t`` in UTC; the first or last instant of the calendar if it lies beyond.

    :raises TypeError: if ``t`` is naive.
    """
    if t.tzinfo is None:
        raise TypeError("an instant must say its time zone; a naive datetime is none")
    try:
        return t.astimezone(UTC)
    except OverflowError:
        return _EARLIEST if t.year == 1 else _LATEST


def instant(seconds: int) -> datetime | None:
    """``seconds`` as a UTC datetime; None outside the years 1 to 9999."""
    if MIN_SECOND <= seconds <= MAX_SECOND:
        return EPOCH + timedelta(0, seconds)
    return None


def instant_of_micros(micros: int) -> datetime | None:
    """``micros`` as a UTC datetime; None outside the years 1 to 9999."""
    seconds, rest = divmod(micros, MICRO)
    if MIN_SECOND <= seconds <= MAX_SECOND:
        return EPOCH + timedelta(0, seconds, rest)
    return None
