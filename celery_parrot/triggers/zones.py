"""Time zones as stretches of constant offset.

``zoneinfo`` answers "what is the offset at t" but not "when does it change". The changes are found by probing every
three days and bisecting, a year at a time and only for years that are asked for; every zone keeps what it found. The
shortest time after which any zone has returned to an offset since 1900 is just under a week (America/Boa_Vista, 2000);
a test reads the tz database itself and proves that no change is overlooked.
"""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from celery_parrot.errors import InvalidSchedule

from .instants import DAY, EPOCH, MAX_SECOND, MIN_SECOND

_BLOCK = 31_556_952
_STEP = 3 * DAY
_NEAR = 2 * DAY
_FIXED = re.compile(r"UTC([+-])([0-9]{2}):?([0-9]{2})", re.IGNORECASE)
# What a host may hold besides the IANA zones: it means something else, or nothing, on the next one.
_OF_THE_HOST = re.compile(r"localtime|posixrules|(?:posix|right)/.*")
# Readings near the ends of the calendar do not fit a datetime; the offset there is that of two days inside.
_FIRST, _LAST = MIN_SECOND + 2 * DAY, MAX_SECOND - 2 * DAY


class Stretch(NamedTuple):
    """Instants ``start <= t < end`` (seconds since the epoch) that share one offset.

    A stretch without a change at one end may be cut there, days away from any change.

    :ivar offset: seconds to add to UTC to get the local reading.
    :ivar before: the offset right before ``start``; ``after`` that from ``end`` on. Equal to ``offset`` where nothing
        changes.
    """

    start: int
    end: int
    offset: int
    before: int
    after: int


class Zone:
    """One time zone, asked by instants in seconds since the epoch.

    :ivar key: the name the zone was asked for by.
    """

    __slots__ = ("_blocks", "_fixed", "_info", "key")

    def __init__(self, key: str, info: tzinfo) -> None:
        self.key = key
        self._info = info
        self._blocks: dict[int, tuple[Stretch, ...]] = {}
        self._fixed: Stretch | None = None
        if isinstance(info, timezone):
            offset = self.offset(0)
            self._fixed = Stretch(MIN_SECOND - DAY, MAX_SECOND + DAY, offset, offset, offset)

    def __repr__(self) -> str:
        return f"Zone({self.key!r})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return zone, (self.key,)

    @property
    def info(self) -> tzinfo:
        """The zone as ``datetime`` takes it."""
        return self._info

    @property
    def fixed(self) -> bool:
        """Whether its offset never changes by definition: UTC or a fixed offset."""
        return self._fixed is not None

    def stretch(self, second: int) -> Stretch:
        """The stretch that ``second`` lies in."""
        if self._fixed is not None:
            return self._fixed
        number = second // _BLOCK
        block = self._block(number)
        if second < block[0].start:
            block = self._block(number - 1)
        elif second >= block[-1].end:
            block = self._block(number + 1)
        for stretch in block:
            if second < stretch.end:
                return stretch
        raise AssertionError("blocks meet without a hole")

    def _block(self, number: int) -> tuple[Stretch, ...]:
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = self._probe(self._edge(number), self._edge(number + 1))
        return block

    def _edge(self, number: int) -> int:
        """Where block ``number`` begins: at a change if one is near: no stretch is cut close to its real end."""
        at = number * _BLOCK
        low, high = at - _NEAR, at + _NEAR
        known = self.offset(low)
        return at if self.offset(high) == known else self._bisect(low, high, known)

    def offset(self, second: int) -> int:
        """Seconds that the local reading is ahead of UTC at ``second``."""
        at = EPOCH + timedelta(0, min(max(second, _FIRST), _LAST))
        offset = at.astimezone(self._info).utcoffset()
        return 0 if offset is None else offset.days * DAY + offset.seconds

    def _probe(self, start: int, end: int) -> tuple[Stretch, ...]:
        edges = [(start, self.offset(start - 1), self.offset(start))]
        low, known = start, edges[0][2]
        while low < end - 1:
            high = min(low + _STEP, end - 1)
            if self.offset(high) != known:
                at = self._bisect(low, high, known)
                known = self.offset(at)
                edges.append((at, edges[-1][2], known))
                low = at
            else:
                low = high
        edges.append((end, known, self.offset(end)))
        return tuple(
            Stretch(at, until, offset, before, after) for (at, before, offset), (until, _, after) in pairwise(edges)
        )

    def _bisect(self, low: int, high: int, known: int) -> int:
        """The first second in ``(low, high]`` whose offset is not ``known``."""
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset(middle) == known:
                low = middle
            else:
                high = middle
        return high


def zone(key: str, field: str = "tz") -> Zone:
    """The zone named ``key``: an IANA name, ``UTC``, or a fixed offset such as ``UTC+02:00``.

    :raises InvalidSchedule: naming ``field`` if there is no such zone on this host.
    """
    try:
        return _load(key)
    except (LookupError, ValueError, OSError, TypeError):
        reason = "no such time zone here; give an IANA name such as Europe/Madrid"
        raise InvalidSchedule(field, key, reason) from None


@lru_cache(maxsize=1024)
def _load(key: str) -> Zone:
    if key.upper() == "UTC":
        return Zone("UTC", UTC)
    if fixed := _FIXED.fullmatch(key):
        sign, hours, minutes = fixed.groups()
        if int(hours) < 24 and int(minutes) < 60:
            ahead = timedelta(hours=int(hours), minutes=int(minutes))
            return Zone(f"UTC{sign}{hours}:{minutes}", timezone(ahead if sign == "+" else -ahead))
    if _OF_THE_HOST.fullmatch(key):
        raise LookupError(key)
    return Zone(key, ZoneInfo(key))
