"""Times, spans and counts as sentences have them: for one reader, in one zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_SHOWN_MOST: Final = 300
_NOTICED: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """:ivar viewer: the zone in which times are told. ``own``: the schedule's, told beside it where it differs.
    :ivar base: the due time that the story is about: other times of its day are told without their date.
    """

    viewer: tzinfo
    own: tzinfo
    now: datetime
    base: datetime

    def due(self, at: datetime) -> str:
        """``Mon 2026-03-02 03:00:00 Europe/Madrid``, with the reading in the schedule's zone where that is another."""
        local, own = at.astimezone(self.viewer), at.astimezone(self.own)
        text = f"{dated(local)}{_which(local)} {zone_name(self.viewer)}"
        if local.utcoffset() == own.utcoffset():
            return text
        reading = clock(own) if own.date() == local.date() else dated(own)
        return f"{text} ({reading}{_which(own)} {zone_name(self.own)})"

    def at(self, at: datetime) -> str:
        """``03:00:00``, with the date where it is not that of the due time."""
        local = at.astimezone(self.viewer)
        return clock(local) if local.date() == self.base.astimezone(self.viewer).date() else dated(local)

    def later(self, at: datetime, since: datetime | None) -> str:
        """``at 03:00:02, 1.9 s later``: an instant, and how long after the one told before, if anybody would notice."""
        if since is None or abs(at - since) < _NOTICED:
            return f"at {self.at(at)}"
        return f"at {self.at(at)}, {after(at, since)}"

    def since(self, at: datetime) -> str:
        """``since 03:00:00 (12 min)``."""
        return f"since {self.at(at)} ({span(self.now - at)})"

    def distance(self, at: datetime) -> str:
        """``in 3 min`` or ``3 min ago``."""
        return f"in {span(at - self.now)}" if at > self.now else f"{span(self.now - at)} ago"


def clock(local: datetime) -> str:
    """``03:00:00``."""
    return f"{local:%H:%M:%S}"


def dated(local: datetime) -> str:
    """``Mon 2026-03-02 03:00:00``."""
    return f"{local:%a %Y-%m-%d} {clock(local)}"


def _which(local: datetime) -> str:
    """Of a reading that the clock shows twice, which of the two: by its offset."""
    if local.replace(fold=1 - local.fold).utcoffset() == local.utcoffset():
        return ""
    return f" {local.isoformat()[-6:]}"


def zone_name(zone: tzinfo) -> str:
    """Its IANA name, or whatever it calls itself."""
    return getattr(zone, "key", None) or str(zone)


def after(at: datetime, since: datetime) -> str:
    """``1.9 s later``, ``3 s before``."""
    passed = at - since
    return f"{span(passed)} later" if passed > timedelta(0) else f"{span(-passed)} before"


def span(length: timedelta | float) -> str:
    """``120 ms``, ``1.9 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for size, unit, part, small in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {small}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def counted(count: int, what: str) -> str:
    """``1 due time``, ``3 due times``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def line(text: str | None) -> str:
    """One line of a result or an error, cut; nothing but the text where it ends by itself."""
    words = " ".join((text or "").split())
    return words if len(words) <= _SHOWN_MOST else f"{words[:_SHOWN_MOST]} … [cut]"


def sentence(text: str) -> str:
    """With a full stop, unless it has an end."""
    return text if text.endswith((".", "!", "?", "…", "]")) else f"{text}."
