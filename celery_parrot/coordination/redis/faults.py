"""What cannot be read in Redis: told once, by key, with what to do about it. Nothing is mended or deleted here."""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from celery_parrot.clock import Clock
from celery_parrot.coordination.redis.codec import text

Tell = Callable[[str, Mapping[str, str]], None]

#: Seconds until a fault that lasts is told again.
TOLD_AGAIN: Final = 600.0
_MOST: Final = 1000

_CLAIM: Final = re.compile(r"^fire:(.*):\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00(?::.*)?$", re.DOTALL)
_SHARED: Final = {
    "coordinator": "Every schedule stops until it is mended: DEL it, and the beats put back what they remember.",
    "pending": "Every schedule stops until it is mended: RENAME it out of the way, the outbox is then made anew.",
    "leases": "Fires run, but one whose worker dies is not noticed: RENAME it out of the way.",
    "silent": "Fires run, but one that shows no progress is not noticed: RENAME it out of the way.",
    "sent": "Fires run, but one that no worker starts is not noticed: RENAME it out of the way.",
    "beats": "Everything runs, but beats are not shown: DEL it, every beat writes its own entry anew.",
    "seen": "Everything runs, but what a dead beat left is taken over late: RENAME it out of the way.",
    "proofs": "Schedules of databases wait: RENAME it out of the way.",
    "carry": "Outcomes of schedules of databases wait: RENAME it out of the way.",
    "uncarried": "Outcomes of schedules of databases wait: RENAME it out of the way.",
    "mirrored": "It matters only after a loss of memory: RENAME it out of the way.",
    "jobs": "Schedules of the redis store wait: restore it, or RENAME it out of the way.",
    "kinds": "Everything runs, but kinds without a route are not reported: RENAME it out of the way.",
}


_PARCELS: Final = {
    "parcels": "Fires run, but nobody is told of them: RENAME it out of the way. What it held is not told.",
    "parcels:queue": "Fires run, but nobody is told of them: RENAME it out of the way, it is then made anew.",
    "parcels:taken": "Fires run, but nobody is told of them: RENAME it out of the way.",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """:ivar suffix: the key without the prefix. ``part``: the field or member at fault, empty for the whole key."""

    suffix: str
    part: str
    reason: str

    @property
    def schedule_id(self) -> str:
        """The one schedule it concerns, empty if there is none."""
        if match := _CLAIM.match(self.suffix):
            return match[1]
        room, _, rest = self.suffix.partition(":")
        return rest if room in ("state", "fires") else ""

    @property
    def advice(self) -> str:
        """What it does, and what to do."""
        room = self.suffix.partition(":")[0]
        if room == "state":
            return self._state()
        if room == "fires":
            what = f"HDEL the field {self.part!r}" if self.part else "RENAME or DEL the key"
            return f"Its fires run, this part of its history is not shown: {what}."
        if room == "fire":
            return "This fire waits, all others run: DEL the key; one in the outbox is then made anew from its history."
        if room == "parcels" and not self.part:
            return _PARCELS[self.suffix]
        if room == "limits":
            return self._limits()
        if room == "run_times":
            return "Schedules of this kind in the redis store wait: RENAME the key out of the way, and edit them."
        if self.part and room in ("pending", "leases"):
            return "All others run."
        if self.part and room == "coordinator":
            return f"Every schedule stops until it is mended: HDEL the field {self.part!r}."
        if self.part:
            return f"All others run: HDEL the field {self.part!r}."
        return _SHARED.get(room, "RENAME it out of the way.")

    def _limits(self) -> str:
        what = self.suffix.split(":", 2)[1]
        if what == "holders":
            return "What needs this limit waits: RENAME the key out of the way; who runs with it says so again at once."
        if what == "waiting":
            return "What waits for this limit waits on: RENAME the key out of the way; it is made anew from the line."
        if what == "line":
            return "Who has to wait for a limit is not let into the line, and tries again: RENAME it out of the way."
        if what in ("names", "capacities") and self.part:
            return f"All others run: {'HDEL' if what == 'capacities' else 'ZREM'} {self.part!r}."
        return "Limits are kept, but are looked after less well: RENAME it out of the way, it is made anew."

    def _state(self) -> str:
        if not self.part:
            return "This schedule waits, all others run: RENAME or DEL the key; it goes on from the mark of a beat."
        if self.part == "last_due":
            return "This schedule waits, all others run: HSET it to the latest decided due time in UTC, or HDEL it."
        if self.part == "auto_count":
            return "This schedule waits, all others run: HSET it to how often it fired."
        return f"Everything runs, but this is not known: HSET the field {self.part!r} to the right value, or HDEL it."

    def sentence(self, prefix: str) -> str:
        """For people: key, what is wrong, what to do."""
        where = f"{prefix}{self.suffix}" + (f" {self.part}" if self.part else "")
        return f"{where}: {self.reason}. {self.advice}"


class Faults:
    """Tells each fault once, and again after a while if it lasts. Thread-safe.

    :ivar tell: who is told, with a sentence and its fields; the log, unless somebody listens.
    """

    def __init__(self, prefix: str, clock: Clock) -> None:
        self._prefix, self._clock = prefix, clock
        self._lock = threading.Lock()
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()
        self.tell: Tell = _log

    def told(self, faults: Iterable[Sequence[Any]]) -> None:
        """Those of a script's answer."""
        for suffix, part, reason in faults:
            self.report(_fault(suffix, part, reason))

    def fatal(self, suffix: Any, part: Any, reason: Any) -> str:
        """One that nothing can go on with; what to raise. Whoever is refused says so, too."""
        fault = _fault(suffix, part, reason)
        self.report(fault)
        return fault.sentence(self._prefix)

    def report(self, fault: Fault) -> None:
        now, what = self._clock.monotonic(), (fault.suffix, fault.part)
        with self._lock:
            last = self._told.get(what)
            if last is not None and now - last < TOLD_AGAIN:
                return
            self._told[what] = now
            self._told.move_to_end(what)
            if len(self._told) > _MOST:
                self._told.popitem(last=False)
        fields = {"key": self._prefix + fault.suffix, "part": fault.part, "reason": fault.reason}
        if fault.schedule_id:
            fields["schedule"] = fault.schedule_id
        self.tell(fault.sentence(self._prefix), fields)


def _fault(suffix: Any, part: Any, reason: Any) -> Fault:
    return Fault(*(text(said, errors="replace") for said in (suffix, part, reason)))


def _log(sentence: str, fields: Mapping[str, str]) -> None:
    logging.getLogger("celery_parrot").error("%s", sentence, extra={"parrot": dict(fields)})
