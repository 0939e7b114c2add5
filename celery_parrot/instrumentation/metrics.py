"""Metrics of one beat, for Prometheus: counted from events, shown when somebody asks.

No label takes a value of a schedule, a fire, a tenant or a payload: each has a closed set of values, and what is not
in it is ``other``. ``docs/metrics.md`` lists them.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.fire import Status

OTHER: Final = "other"

FIRES: Final = "parrot_fires_total"
CLAIMS: Final = "parrot_claims_total"
FAILURES: Final = "parrot_failures_total"
LATENESS: Final = "parrot_fire_lateness_seconds"
TICK: Final = "parrot_tick_duration_seconds"
WAITING: Final = "parrot_waiting"
SCHEDULES: Final = "parrot_schedules"
BEATS: Final = "parrot_beats"

STATUSES: Final = (
    Status.SENT, Status.SUCCESS, Status.ERROR, Status.TARGET_MISSING, Status.ABANDONED, Status.EXPIRED, Status.MISSED,
    Status.SKIPPED, Status.UNKNOWN,
)  # fmt: skip
OUTCOMES: Final = ("won", "lost", "taken_over")
REASONS: Final = (
    "unrouted_kind", "send_failed", "unsendable", "store_failed", "lock_unavailable", "memory_lost", "clock_step",
    "broken_schedule", "disabled_schedule", "worker_lost", "silent", "expired_waiting", "never_started",
    "reaper_failed", "events_dropped", OTHER,
)  # fmt: skip
"""Every ``reason``. Another fire reason is ``other``."""

LATENESS_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
TICK_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_CLAIM: Final = {events.FIRE_CLAIMED: "won", events.CLAIM_LOST: "lost", events.TAKEN_OVER: "taken_over"}
_FAILURE: Final = {
    events.FIRE_UNROUTED: "unrouted_kind",
    events.SEND_FAILED: "send_failed",
    events.STORE_FAILED: "store_failed",
    events.LOCK_UNAVAILABLE: "lock_unavailable",
    events.MEMORY_LOST: "memory_lost",
    events.CLOCK_STEP: "clock_step",
    events.SCHEDULE_BROKEN: "broken_schedule",
    events.SCHEDULE_DISABLED: "disabled_schedule",
    events.REAPER_FAILED: "reaper_failed",
}
_ENDED: Final = {
    events.FIRE_SENT: Status.SENT,
    events.FIRE_SUCCEEDED: Status.SUCCESS,
    events.FIRE_FAILED: Status.ERROR,
    events.FIRE_SKIPPED: Status.SKIPPED,
    events.FIRE_MISSED: Status.MISSED,
    events.FIRE_EXPIRED: Status.EXPIRED,
    events.FIRE_REAPED: Status.ABANDONED,
    events.FIRE_UNKNOWN: Status.UNKNOWN,
}
_REAPED: Final = {
    "worker lost": "worker_lost",
    "silent": "silent",
    "expired waiting": "expired_waiting",
    "queue deadline": "never_started",
    "no worker": "never_started",
}
HEARD: Final = frozenset({events.FIRE_SUCCEEDED, events.FIRE_FAILED, events.FIRE_EXPIRED})
"""Events by which workers tell an outcome."""


def _none() -> Mapping[Any, int]:
    return {}


class Metrics:
    """An :class:`~celery_parrot.protocols.EventSink` that counts, and a collector for ``prometheus_client``.

    :param kinds: the declared kinds; ``task`` is always one.
    :param groups: the exclusion groups of the settings.
    """

    def __init__(self, kinds: Collection[str] = (), groups: Collection[str] = ()) -> None:
        self._kinds, self._groups = frozenset({"task", *kinds}), frozenset(groups)
        self._lock = threading.Lock()
        self._fires: Counter[tuple[str, str]] = Counter(
            {(kind, str(status)): 0 for kind in self._kinds for status in STATUSES}
        )
        self._claims: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._failures: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        self._lateness, self._ticks = _Histogram(LATENESS_BUCKETS), _Histogram(TICK_BUCKETS)
        #: Asked at each scrape, from another thread: waiting fires by the name of their limit, schedules by store and
        #: state, living beats.
        self.waiting: Callable[[], Mapping[str, int]] = _none
        self.schedules: Callable[[], Mapping[tuple[str, str], int]] = _none
        self.beats: Callable[[], int] = lambda: 0

    # --- counting ---

    def emit(self, event: Event) -> None:
        """Count it, if it is one that counts."""
        name, fields = event.name, event.fields
        with self._lock:
            if name == events.TICK_COMPLETED:
                self._ticks.observe(float(fields.get("took", 0.0)))
            if name in _CLAIM:
                self._claims[_CLAIM[name]] += 1
            if name in _FAILURE and event.level >= logging.WARNING:  # the same name at a lower level says it is over
                self._failures[_FAILURE[name]] += 1
            if name in _ENDED:
                self._ended(name, fields)

    def heard(self, name: str, fields: Mapping[str, Any]) -> None:
        """Count an outcome that a worker told; a failure of a task is no failure of ours."""
        with self._lock:
            self._count(name, fields)

    def events_dropped(self, count: int) -> None:
        """So many Celery events were never sent."""
        with self._lock:
            self._failures["events_dropped"] += count

    def _ended(self, name: str, fields: Mapping[str, Any]) -> None:
        self._count(name, fields)
        if name == events.FIRE_SENT and fields.get("late") is not None and fields.get("attempt", 1) == 1:
            self._lateness.observe(max(0.0, float(fields["late"])))
        elif name == events.FIRE_FAILED:
            self._failures["unsendable"] += 1
        elif name in (events.FIRE_REAPED, events.FIRE_EXPIRED, events.FIRE_UNKNOWN):
            self._failures[_reaped(str(fields.get("reason", "")))] += int(fields.get("count", 1))

    def _count(self, name: str, fields: Mapping[str, Any]) -> None:
        status = str(fields.get("status") or _ENDED[name])
        if status in STATUSES:  # one that is sent again goes on
            self._fires[_known(fields.get("kind"), self._kinds), status] += int(fields.get("count", 1))

    # --- showing ---

    def collect(self) -> Iterator[Any]:
        """The metric families. What ``prometheus_client`` asks of a collector."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            fires, claims, failures = dict(self._fires), dict(self._claims), dict(self._failures)
            lateness, ticks = self._lateness.family(LATENESS, _LATE_TEXT), self._ticks.family(TICK, _TICK_TEXT)
        family = CounterMetricFamily(
            FIRES, "Fires by what became of them; sent is on the way.", labels=["kind", "status"]
        )
        for pair, count in sorted(fires.items()):
            family.add_metric(pair, count)
        yield family
        for name, text, label, counted in (
            (CLAIMS, "Claims of due times by this beat.", "outcome", claims),
            (FAILURES, "What went wrong in scheduling, as this beat met it.", "reason", failures),
        ):
            family = CounterMetricFamily(name, text, labels=[label])
            for value, count in sorted(counted.items()):
                family.add_metric([value], count)
            yield family
        yield lateness
        yield ticks
        gauge = GaugeMetricFamily(WAITING, "Fires in line for a limit; every beat shows the same.", labels=["group"])
        for group, count in sorted(self._waiting().items()):
            gauge.add_metric([group], count)
        yield gauge
        gauge = GaugeMetricFamily(SCHEDULES, "Schedules; every beat shows the same.", labels=["store", "state"])
        for pair, count in sorted(self.schedules().items()):
            gauge.add_metric(pair, count)
        yield gauge
        yield GaugeMetricFamily(BEATS, "Living beats; every beat shows the same.", value=self.beats())

    def describe(self) -> list[Any]:
        """Nothing is computed when the collector is registered."""
        return []

    def _waiting(self) -> Mapping[str, int]:
        counts: Counter[str] = Counter(dict.fromkeys((*self._groups, "slots", OTHER), 0))
        for limit, count in self.waiting().items():
            counts[_known(limit.removeprefix("group:"), {*self._groups, "slots"})] += count
        return counts


_LATE_TEXT: Final = "Seconds from the due time, jitter included, until the broker had the message."
_TICK_TEXT: Final = "Seconds that a tick took."


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str) -> Any:
        from prometheus_client.core import HistogramMetricFamily

        buckets, total = [], 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self._sum)


def _known(value: object, values: Collection[str]) -> str:
    return value if isinstance(value, str) and value in values else OTHER


def _reaped(reason: str) -> str:
    return next((known for start, known in _REAPED.items() if reason.startswith(start)), OTHER)
