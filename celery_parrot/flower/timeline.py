"""The due times of the next 24 hours, counted by kind in the background."""

from __future__ import annotations

import heapq
import json
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from celery_parrot.client import ScheduleView
from celery_parrot.clock import Clock
from celery_parrot.flower.counting import CELL, Counts, Span, at_most, counts_of
from celery_parrot.model.secrets import mask
from celery_parrot.protocols import State
from celery_parrot.triggers import Trigger

logger = logging.getLogger("celery_parrot")

HOURS: Final = 24
BUCKET: Final = 600
"""Seconds of one bucket; an hour is a whole number of them."""
KEPT: Final = 300.0
"""Seconds after which what was counted is counted anew."""
TRIED_AGAIN: Final = 10.0
"""Seconds until a count that failed is begun anew."""
PEAKS: Final = 10
REST: Final = 0.5
"""How long it rests after each page, by the time that the page took."""

_PAGE: Final = 999
"""Large, for each page is a question to every store. Redis gives five hundred at once, and one more is looked at."""
_SPECS: Final = 4096
_IN_A_BUCKET: Final = BUCKET // CELL
_CELLS: Final = HOURS * 3600 // CELL
_UNCOUNTABLE: Final = "uncountable"
_BY_ID: Final = frozenset({"random_within_window"})
_BY_CREATION: Final = frozenset({"once", "one_shot_at", "relative_delay"})


class Source(Protocol):
    """What is asked of the client."""

    def find(self, *, after: str = "", limit: int = 100) -> Any: ...

    def trigger_of(self, view: ScheduleView) -> Trigger: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """:ivar at: the minute. :ivar count: all due times in it. :ivar kinds: those with most, and how many each."""

    at: datetime
    count: int
    kinds: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How far the count is.

    :ivar start: of the first bucket, UTC. :ivar as_of: when the count began; what was due by then is not in it.
    :ivar kinds: due times by bucket, by kind. :ivar peaks: the minutes with most, greatest first.
    :ivar counted: schedules looked at. :ivar complete: that is all of them.
    :ivar left_out: schedules without a due time to count, by state, and ``uncountable`` ones, whose due times cannot be
        computed. :ivar capped: schedules so frequent that only a part was counted.
    :ivar failed: why the count ended early; empty if it did not.
    """

    start: datetime
    as_of: datetime
    kinds: dict[str, list[int]]
    peaks: tuple[Peak, ...]
    counted: int
    complete: bool
    left_out: dict[str, int]
    capped: int
    failed: str

    def to_json(self) -> dict[str, Any]:
        """As the API answers."""
        return {
            "from": self.start.isoformat(),
            "as_of": self.as_of.isoformat(),
            "bucket_seconds": BUCKET,
            "kinds": self.kinds,
            "peaks": [
                {"at": peak.at.isoformat(), "count": peak.count, "kinds": dict(peak.kinds)} for peak in self.peaks
            ],
            "counted": self.counted,
            "complete": self.complete,
            "left_out": self.left_out,
            "capped": self.capped,
            "failed": self.failed,
        }


@dataclass(slots=True)
class Tally:
    """One count. Filled by one thread."""

    as_of: datetime
    cells: dict[str, list[int]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    counted: int = 0
    capped: int = 0
    complete: bool = False
    failed: str = ""
    _known: OrderedDict[str, Counts] = field(default_factory=OrderedDict)

    @property
    def start(self) -> datetime:
        """Of the first bucket."""
        second = self.as_of.minute * 60 + self.as_of.second
        return self.as_of - timedelta(seconds=second % BUCKET, microseconds=self.as_of.microsecond)

    def count(self, view: ScheduleView, trigger_of: Callable[[ScheduleView], Trigger]) -> Counts | str:
        """The due times of one schedule, or as what it is left out. Whatever is wrong with it ends nothing."""
        if view.state is not State.ACTIVE:
            return view.state
        try:
            return self._counts(view, trigger_of)
        except Exception:  # triggers of the code may be the user's, and raise anything
            return _UNCOUNTABLE

    def add(self, view: ScheduleView, counts: Counts | str) -> None:
        """Take what :meth:`count` found of a schedule."""
        self.counted += 1
        if isinstance(counts, str):
            self.left_out[counts] += 1
            return
        self.capped += counts.capped
        if counts.cells:
            cells = self.cells.setdefault(view.kind, [0] * _CELLS)
            for cell, count in counts.cells.items():
                cells[cell] += count

    def snapshot(self) -> Snapshot:
        """What there is so far."""
        return Snapshot(
            start=self.start,
            as_of=self.as_of,
            kinds={kind: _buckets(cells) for kind, cells in sorted(self.cells.items())},
            peaks=self._peaks(),
            counted=self.counted,
            complete=self.complete,
            left_out=dict(self.left_out),
            capped=self.capped,
            failed=self.failed,
        )

    def _counts(self, view: ScheduleView, trigger_of: Callable[[ScheduleView], Trigger]) -> Counts:
        mark = view.run_state.last_due
        ahead = mark is not None and mark > self.as_of
        span = Span(self.start, _CELLS, mark if mark is not None and ahead else self.as_of)
        spec = "" if ahead else spec_of(view)
        counts = self._known.get(spec) if spec else None
        if counts is None:
            counts = counts_of(trigger_of(view), span)
            if spec:
                self._keep(spec, counts)
        else:
            self._known.move_to_end(spec)
        return counts if view.max_fires is None else at_most(counts, view.max_fires - view.run_state.auto_count)

    def _keep(self, spec: str, counts: Counts) -> None:
        self._known[spec] = counts
        if len(self._known) > _SPECS:
            self._known.popitem(last=False)

    def _peaks(self) -> tuple[Peak, ...]:
        total = [sum(column) for column in zip(*self.cells.values(), strict=True)]
        highest = heapq.nsmallest(PEAKS, ((-count, cell) for cell, count in enumerate(total) if count))
        return tuple(
            Peak(
                at=self.start + timedelta(seconds=cell * CELL),
                count=-count,
                kinds=tuple(Counter({kind: cells[cell] for kind, cells in self.cells.items()}).most_common(3)),
            )
            for count, cell in highest
        )


def spec_of(view: ScheduleView) -> str:
    """The same text for schedules that have the same due times; empty where they depend on the schedule itself."""
    if view.store == "code" or view.schedule_type in _BY_ID | _BY_CREATION:
        return ""
    config = json.dumps(view.schedule_config, sort_keys=True, default=str)
    if view.schedule_type in ("cron", "crontab") and "H" in config:
        return ""
    bounds = (view.start_at, view.end_at)
    return "\n".join(map(str, (view.schedule_type, config, view.timezone, view.dst_gap, view.dst_fold, *bounds)))


class Timeline:
    """Counts when asked, in a thread of its own, page by page. Asking never waits.

    :param client: called in that thread only.
    """

    def __init__(self, client: Callable[[], Source], clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._lock = threading.Lock()
        self._tally: Tally | None = None
        self._lasts_until: float | None = None  # by the monotonic clock; None: it is being counted

    def snapshot(self) -> Snapshot:
        """How far the count is; the first time, and when it is too old, it is begun."""
        with self._lock:
            over = self._lasts_until is not None and self._clock.monotonic() >= self._lasts_until
            if self._tally is None or over:
                self._tally, self._lasts_until = Tally(self._clock.now()), None
                thread = threading.Thread(target=self._count, args=(self._tally,), name="parrot-timeline", daemon=True)
                thread.start()
            return self._tally.snapshot()

    def _count(self, tally: Tally) -> None:
        failed = ""
        try:
            self._pages(tally)
        except Exception as exc:
            failed = mask(str(exc)) or type(exc).__name__
            logger.warning("the timeline could not be counted: %s", failed)
        with self._lock:
            tally.failed, tally.complete = failed, not failed
            self._lasts_until = self._clock.monotonic() + (TRIED_AGAIN if failed else KEPT)

    def _pages(self, tally: Tally) -> None:
        client, after = self._client(), ""
        while True:
            began = self._clock.monotonic()
            page = client.find(after=after, limit=_PAGE)
            self._add(tally, page, client.trigger_of)
            if not page.after:
                return
            after = page.after
            # The interpreter is left to the requests that are answered meanwhile.
            self._clock.sleep(REST * (self._clock.monotonic() - began))

    def _add(self, tally: Tally, page: Sequence[ScheduleView], trigger_of: Callable[[ScheduleView], Trigger]) -> None:
        for view in page:
            counts = tally.count(view, trigger_of)  # may take long: whoever asks how far it is does not wait for it
            with self._lock:
                tally.add(view, counts)


def _buckets(cells: Sequence[int]) -> list[int]:
    return [sum(cells[first : first + _IN_A_BUCKET]) for first in range(0, len(cells), _IN_A_BUCKET)]
