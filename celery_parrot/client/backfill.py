"""Backfill: due times that did not fire, fired after all, a few at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Event
from typing import Final, TypeVar

from celery_parrot.client.gaps import Gaps, whole_history
from celery_parrot.client.why_facts import zone_named
from celery_parrot.client.why_when import moment_of
from celery_parrot.clock import Clock
from celery_parrot.errors import InvalidSchedule, MemoryLost, Unreachable
from celery_parrot.model.fire import FireKey, FireRecord, Namespace, Origin
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import Coordinator, DefinitionStore, Demand, DemandReply, Demands, DemandVerdict
from celery_parrot.triggers import Trigger

MOST: Final = 100_000
"""Due times that one backfill looks at."""

FORCED: Final = "forced"
"""The nonce of a due time that is older than the history: whatever id it had, this is another."""

UNTOLD: Final = "untold"
"""What became of a fire whose claim is gone: the coordinator forgot it."""

_LOOK: Final = 0.1
"""Seconds between two looks at those on their way; more where nothing changes. One is asked for a look."""

_LOOK_AT_MOST: Final = 1.0
_TRIES: Final = 30
"""Looks in a row that a coordinator out of reach is given."""

Progress = Callable[["Backfill"], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """How far a backfill has come.

    :ivar start: of the stretch, UTC. ``end``: of what of it is decided; None: nothing is.
    :ivar due_times: those that are to fire, in the order in which they are asked for.
    :ivar fired: how many of the stretch had fired already, or were on their way.
    :ivar asked: how many of ``due_times`` have been asked for; those after are not yet.
    :ivar active: ids of those on their way.
    :ivar outcomes: how those that have ended did, by status. ``left_out``: how many had fired meanwhile when their time
        to be asked for came.
    """

    name: str
    schedule_id: str
    start: datetime
    end: datetime | None
    dry_run: bool = False
    due_times: tuple[datetime, ...] = ()
    fired: int = 0
    asked: int = 0
    active: tuple[str, ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0

    @property
    def ended(self) -> int:
        """How many of ``due_times`` need no more looking after."""
        return self.left_out + sum(self.outcomes.values())


@dataclass(slots=True, kw_only=True)
class Backfilling:
    """One schedule's.

    :ivar store: where its definition is, and its history. ``trigger``: when it is due, without jitter.
    """

    store: DefinitionStore
    schedule: Schedule
    trigger: Trigger
    coordinator: Coordinator
    demands: Demands
    clock: Clock
    namespace: Namespace
    _doubtful: set[FireKey] = field(default_factory=set)  # asked for, and the answer was lost

    def run(
        self,
        start: datetime | str,
        end: datetime | str | None,
        *,
        mark: datetime | None,
        dry_run: bool,
        max_active: int,
        reverse: bool,
        force: bool,
        progress: Progress,
        stop: Event,
    ) -> Backfill:
        """See :meth:`celery_parrot.client.Schedules.backfill`."""
        if max_active < 1:
            raise InvalidSchedule("max_active", max_active, "must be at least 1")
        now = self._ask(lambda: self.coordinator.attach().now)
        first = self._instant("start", start, now)
        last = None if end is None else self._instant("end", end, now)
        if last is not None and last < first:
            raise InvalidSchedule("end", end, "lies before the start")
        last = min(one for one in (last, mark, now) if one is not None)
        due_times = self._due_times(first, last)
        gaps = self._gaps()
        kept = self._kept_since(gaps.records, now)
        if due_times and due_times[0] < kept and not force:
            raise InvalidSchedule(
                "start", start, f"is older than the history, which is kept from {kept:%Y-%m-%dT%H:%M:%S+00:00} on: "
                "whether a due time before that has fired is not known; begin there, or give force"
            )  # fmt: skip
        keys = [FireKey(self.schedule.schedule_id, at, FORCED if at < kept else "") for at in due_times]
        wanted = [key for key in keys if not gaps.has_fired(key)]
        if reverse:
            wanted.reverse()
        state = Backfill(
            name=self.schedule.name,
            schedule_id=self.schedule.schedule_id,
            start=first,
            end=last if last >= first else None,
            dry_run=dry_run,
            due_times=tuple(key.due_at for key in wanted),
            fired=len(keys) - len(wanted),
        )
        return state if dry_run else self._fill(state, deque(wanted), gaps, max_active, progress, stop)

    # --- which ---

    def _instant(self, name: str, value: datetime | str, now: datetime) -> datetime:
        try:
            moment = moment_of(value, now, zone_named(self.schedule.timezone))
        except (InvalidSchedule, AttributeError, TypeError):
            raise InvalidSchedule(
                name, value, "must be an instant such as 2026-03-02T03:00, with or without an offset, a day such as "
                "2026-03-02, or a time of day such as 03:00 (today) or 'yesterday 03:00'"
            ) from None  # fmt: skip
        if name == "end" and isinstance(value, str) and moment.size == timedelta(days=1):
            return moment.end - timedelta(microseconds=1)  # the whole day
        return moment.starts[0]

    def _due_times(self, first: datetime, last: datetime) -> list[datetime]:
        found: list[datetime] = []
        at = self.trigger.next_after(first - timedelta(microseconds=1))
        while at is not None and at <= last:
            if len(found) == MOST:
                raise InvalidSchedule("end", str(last), f"there are over {MOST:,} due times; fill them in parts")
            found.append(at)
            at = self.trigger.next_after(at)
        return found

    def _gaps(self) -> Gaps:
        records = self._ask(lambda: whole_history(self.store, self.schedule.schedule_id))
        # The history of rows is in their database, and split there.
        return Gaps(records, self.trigger, splits=self.store.name != "db")

    def _kept_since(self, records: Sequence[FireRecord], now: datetime) -> datetime:
        timing = self.coordinator.timing
        kept = now - timedelta(days=timing.history_days)
        oldest = records[-1].due_at if len(records) >= timing.history_limit else kept
        return max(kept, oldest)

    # --- asking for them ---

    def _fill(
        self,
        state: Backfill,
        waiting: deque[FireKey],
        gaps: Gaps,
        max_active: int,
        progress: Progress,
        stop: Event,
    ) -> Backfill:
        active: list[FireKey] = []
        outcomes: Counter[str] = Counter()
        pause = _LOOK
        progress(state)
        while (waiting or active) and not stop.is_set():
            before = state
            for key, status in self._ended(active):
                active.remove(key)
                outcomes[status] += 1
            if waiting and len(active) < max_active:  # one a look: nothing else must stand behind a crowd of these
                key = waiting[0]
                reply = self._demand(key, gaps)
                if reply.verdict is DemandVerdict.MOVED:
                    gaps = self._gaps()
                elif reply.verdict is not DemandVerdict.QUIET:
                    waiting.popleft()
                    if reply.verdict is DemandVerdict.ASKED or key in self._doubtful:
                        gaps.filled(key)
                        active.append(key)
                        state = replace(state, asked=state.asked + 1)
                    else:
                        state = replace(state, asked=state.asked + 1, left_out=state.left_out + 1)
            state = replace(state, active=tuple(map(self._id, active)), outcomes=dict(outcomes))
            changed = state != before
            if changed:
                progress(state)
            if waiting or active:
                pause = _LOOK if changed else min(pause * 1.5, _LOOK_AT_MOST)
                self.clock.wait(stop, pause)
        return state

    def _demand(self, key: FireKey, gaps: Gaps) -> DemandReply:
        schedule = self.schedule
        demand = Demand(
            key=key,
            name=schedule.name,
            kind=schedule.kind,
            origin=Origin.BACKFILL,
            store=self.store.name,
            recover=schedule.policy.recover,
            tells=tuple(sorted(schedule.tells)),
            split=None if key.nonce else gaps.split(key.due_at),
            attempt=gaps.attempt(key),
        )

        def ask() -> DemandReply:
            try:
                (reply,) = self.demands.demand([demand])
            except Unreachable:
                self._doubtful.add(key)
                raise
            return reply

        return self._ask(ask)

    def _ended(self, active: Sequence[FireKey]) -> list[tuple[FireKey, str]]:
        if not active:
            return []
        claims = self._ask(lambda: self.coordinator.claims(active))
        return [
            (key, UNTOLD if claim is None else str(claim.status))
            for key, claim in zip(list(active), claims, strict=True)
            if claim is None or claim.status.terminal
        ]

    def _id(self, key: FireKey) -> str:
        return self.namespace.fire_id(key)

    def _ask(self, call: Callable[[], T]) -> T:
        """Again and again while the coordinator is out of reach, as long as a person would wait."""
        for _ in range(_TRIES - 1):
            try:
                return call()
            except MemoryLost:
                self._attach()
            except Unreachable:
                self.clock.sleep(_LOOK_AT_MOST)
        return call()

    def _attach(self) -> None:
        try:
            self.coordinator.attach()
        except Unreachable:
            self.clock.sleep(_LOOK_AT_MOST)
