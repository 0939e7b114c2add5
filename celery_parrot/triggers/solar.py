"""Sunrise and the like, as Celery names them, through ephem (extra ``solar``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from celery_parrot.errors import InvalidSchedule

from .instants import DAY, MAX_SECOND, MIN_SECOND, instant, seconds_of
from .options import Options

KEYS = frozenset({"event", "lat", "lon"})


class _Event(NamedTuple):
    """How ephem is asked.

    :ivar begins: the mean solar hour at which the day that is searched begins, far from where the event can fall, so
        that each day has at most one.
    """

    method: str
    horizon: str
    use_center: bool
    begins: int


# Horizons and methods of celery.schedules.solar, so that both name the same instants.
_EVENTS = {
    "dawn_astronomical": _Event("next_rising", "-18", True, 18),
    "dawn_nautical": _Event("next_rising", "-12", True, 18),
    "dawn_civil": _Event("next_rising", "-6", True, 18),
    "sunrise": _Event("next_rising", "-0:34", False, 18),
    "solar_noon": _Event("next_transit", "0", False, 0),
    "sunset": _Event("next_setting", "-0:34", False, 6),
    "dusk_civil": _Event("next_setting", "-6", True, 6),
    "dusk_nautical": _Event("next_setting", "-12", True, 6),
    "dusk_astronomical": _Event("next_setting", "-18", True, 6),
}
EVENTS = tuple(_EVENTS)
# The longest night of an event is less than a year; a day more on either side covers the rounding to solar days.
_DAYS_AHEAD = 368
_HALF_SECOND = timedelta(microseconds=500_000)
# Beyond these years the sun's position is an extrapolation, and ephem's dates leave datetime's range.
_FIRST_DAY, _LAST_DAY = MIN_SECOND // DAY + 366, MAX_SECOND // DAY - 366
_POLAR = 89.0


@dataclass(frozen=True, slots=True)
class Solar:
    """Every time the sun does ``event`` at a place, to the whole second.

    An event's instant is computed from its own solar day, never from the instant asked about, so that all who ask
    agree. A day without the event has none: a polar night is a gap.

    :ivar event: one of :data:`EVENTS`. :ivar lat: degrees north. :ivar lon: degrees east.
    """

    event: str
    lat: float
    lon: float
    _shift: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_shift", _shift(self.event, self.lon))

    @property
    def deterministic(self) -> bool:
        """True."""
        return True

    def next_after(self, t: datetime) -> datetime | None:
        """The smallest due time strictly after ``t``, in UTC; None if none comes within a year."""
        second = seconds_of(t)
        day = self._day(second)
        for number in range(day, day + _DAYS_AHEAD):
            due = _event_of(self.event, self.lat, self.lon, number)
            if due is not None and due > second:
                return instant(due)
        return None

    def latest_at(self, t: datetime) -> datetime | None:
        """The greatest due time at or before ``t``, in UTC; None if there was none within a year."""
        second = seconds_of(t)
        day = self._day(second)
        for number in range(day, day - _DAYS_AHEAD, -1):
            due = _event_of(self.event, self.lat, self.lon, number)
            if due is not None and due <= second:
                return instant(due)
        return None

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """``solar`` with ``event lat lon``."""
        return "solar", {"event": self.event, "lat": self.lat, "lon": self.lon}

    def describe(self) -> str:
        """The event and the place."""
        name = self.event.replace("_", " ").capitalize()
        return (
            f"{name} at latitude {self.lat:g}, longitude {self.lon:g} (the sun's time; clock changes do not move it)."
        )

    def _day(self, second: int) -> int:
        """The mean solar day that ``second`` lies in, counted from 1970."""
        return (second + self._shift) // DAY


def _shift(event: str, lon: float) -> int:
    return round(lon * 240) - _EVENTS[event].begins * 3_600


@lru_cache(maxsize=4096)
def _event_of(event: str, lat: float, lon: float, day: int) -> int | None:
    """The second of the event within one mean solar day; None where the sun does not do it that day."""
    if not _FIRST_DAY <= day <= _LAST_DAY:
        return None
    ephem: Any = import_module("ephem")
    method, horizon, use_center, _ = _EVENTS[event]
    place = ephem.Observer()
    place.lat, place.lon, place.elev, place.pressure, place.horizon = str(lat), str(lon), 0, 0, horizon
    begin = day * DAY - _shift(event, lon)
    start = instant(begin)
    assert start is not None
    arguments = {"use_center": True} if use_center else {}
    try:
        at = getattr(place, method)(ephem.Sun(), start=ephem.Date(start.replace(tzinfo=None)), **arguments)
    except ephem.CircumpolarError:
        return None
    due = seconds_of(at.datetime().replace(tzinfo=UTC) + _HALF_SECOND)
    return due if due < begin + DAY else None


def from_solar(options: Options) -> Solar:
    """``event lat lon``.

    :raises InvalidSchedule: if one is missing or out of range, ephem is not installed, or the event never happens
        there.
    """
    try:
        import_module("ephem")
    except ImportError:
        raise InvalidSchedule("schedule_type", "solar", "needs ephem: pip install 'celery-parrot[solar]'") from None
    event = options.choice("event", EVENTS, "") if options.get("event") is not None else None
    if event is None:
        raise InvalidSchedule("event", None, f"must be one of {', '.join(EVENTS)}")
    found = Solar(event, _degrees(options, "lat", 90), _degrees(options, "lon", 180))
    if abs(found.lat) > _POLAR and found.next_after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
        raise InvalidSchedule("lat", found.lat, f"{event} never happens there")
    return found


def _degrees(options: Options, key: str, most: int) -> float:
    value = options.number(key)
    if value is None or not -most <= value <= most:
        raise InvalidSchedule(key, options.get(key), f"must be degrees from {-most} to {most}")
    return float(value)
