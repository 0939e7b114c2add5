"""One tick of a beat: sweep, scan, plan, commit, send, confirm, and how long to sleep.

The loop outlives every outage: a coordinator that cannot be asked means that nothing is sent and due times stay due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from celery_parrot.clock import Clock
from celery_parrot.dispatch.committer import Committer, listen
from celery_parrot.dispatch.deliveries import DeliveryDesk
from celery_parrot.dispatch.errands import Errands
from celery_parrot.dispatch.health import STALLED, Health
from celery_parrot.dispatch.ledgers import Ledgers, SharedLedger, row_ledgers
from celery_parrot.dispatch.limits import refuse_unkept
from celery_parrot.dispatch.mirror import PAGE
from celery_parrot.dispatch.outbox import Outbox
from celery_parrot.dispatch.pace import Pace
from celery_parrot.dispatch.reaper import Reaper
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.settings import Identity as Identity
from celery_parrot.dispatch.settings import TickSettings as TickSettings
from celery_parrot.dispatch.stores import Stores
from celery_parrot.dispatch.telling import Teller
from celery_parrot.dispatch.timekeeper import Timekeeper
from celery_parrot.dispatch.watch import Watch
from celery_parrot.dispatch.writing import Ticket
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.state import Beat
from celery_parrot.protocols import (
    Coordinator,
    EventSink,
    Memory,
    Reading,
    RowStore,
    ScheduleStore,
    Sender,
    SweepReply,
    Waiting,
)

T = TypeVar("T")

_REGISTER_BATCH = 1000
_SETTLE = 0.2
_GLANCE = 50
_FIRST_BATCH = 32
"""Schedules of the first round of a rush: its first messages leave while a full batch would still be planned."""
UNROUTED = "unrouted_kind"


class Ticker:
    """Drives one beat. Not thread-safe: one thread ticks; :meth:`health` may be read from any."""

    def __init__(
        self,
        *,
        coordinator: Coordinator,
        stores: Sequence[ScheduleStore],
        sender: Sender,
        router: Router,
        clock: Clock,
        events: EventSink,
        identity: Identity,
        settings: TickSettings,
        rows: Sequence[RowStore] = (),
    ) -> None:
        self._coordinator, self._sender, self._router, self._clock = coordinator, sender, router, clock
        self._events, self._identity, self._settings = events, identity, settings
        self._time = Timekeeper(clock)
        listen(coordinator, events)
        refuse_unkept(coordinator, router.kinds, (), router.bounds)
        self._stores = Stores(stores, events, clock)
        ledgers = Ledgers(SharedLedger(coordinator), row_ledgers(coordinator, rows, router.namespace))
        teller = Teller(router.namespace, events)
        self._outbox = Outbox(
            coordinator, ledgers, sender, router, self._stores, clock, self._time.now, events, identity.owner
        )
        self._committer = Committer(ledgers, self._stores, clock, events, teller, identity.owner, settings.on_time)
        self._errands = Errands(coordinator, rows, self._stores, clock, settings.batch)
        queue = settings.delivery_queue
        self._desk = DeliveryDesk(coordinator, self._stores, sender, clock, identity.owner, queue, events)
        self._reaper = Reaper(coordinator, clock, events, teller, settings.reap_interval)
        self._pace = Pace(clock)
        self._watch = Watch(clock, events, settings.max_clock_skew)
        self._started = clock.now()
        self._attached = False
        self._reading: Reading | None = None
        self._beats: tuple[Beat, ...] = ()
        self._next_sweep = self._next_unrouted = clock.monotonic()
        self._rushing = False
        self._woken = False
        self._page = 0
        self._swept_at: datetime | None = None
        self._last_tick = clock.monotonic()
        self._begun: float | None = None  # while a tick runs: since when

    # -- what people drive --

    def tick(self) -> float:
        """Do what is due now; the seconds to sleep until there is more, 0 if there is more at once.

        Never raises for an outage of coordinator, broker or store.
        """
        begun = self._begun = self._clock.monotonic()
        self._events.emit(Event(events.TICK_STARTED, logging.DEBUG, "tick started"))
        try:
            return self._ticked(begun)
        finally:
            self._begun = None

    def _ticked(self, begun: float) -> float:
        try:
            more = self._turn()
        except MemoryLost as lost:
            more = self._remember(lost)
        except Unreachable as exc:
            self._watch.unreachable(str(exc))
            self._errands.lock_unavailable(self._router.routed, None if self._reading is None else self._time.now())
            return self._settings.sync_interval
        self._last_tick = self._clock.monotonic()
        took = round(self._last_tick - begun, 6)
        self._events.emit(Event(events.TICK_COMPLETED, logging.DEBUG, f"tick took {took:g} s", {"took": took}))
        return 0.0 if more else self._sleep()

    def woken(self) -> None:
        """Somebody woke the beats: look at the outbox in the next tick, whenever the last look was."""
        self._woken = True

    def close(self) -> None:
        """Leave in good order: what is still in the outbox passes to the others at once."""
        try:
            if self._attached:
                self._coordinator.leave(self._identity.owner)
        except (Unreachable, MemoryLost):
            pass  # its heartbeat lapses in a few seconds, which tells the others the same
        self._sender.close()

    def health(self) -> Health:
        """This beat's state, without asking anybody."""
        status, since, reason = self._watch.status
        begun = self._begun  # read once: another thread ticks
        if begun is not None and self._clock.monotonic() - begun > self._coordinator.timing.heartbeat:
            status, since, reason = STALLED, begun, "a tick does not end"
        elif status == "ok":
            if self._reading is None:
                status = "starting"
            elif self._quiet():
                status = "quiet"
            elif not self._time.steady:
                status = "unsteady"
            elif self._outbox.broker_down:
                status, reason = "broker_unavailable", self._outbox.broker_down
        now = None if self._reading is None else self._time.now()
        living = [beat for beat in self._beats if self._lives(beat)]
        return Health(
            status=status,
            since=since,
            last_tick=self._last_tick,
            now=now,
            skew=self._time.skew,
            beats=len(living),
            pending=len(self._outbox.mirror),
            reason=reason,
            failing=self._stores.failing,
        )

    @property
    def line(self) -> tuple[Waiting, ...]:
        """Who waits for limits, as last swept. May be read from any thread."""
        return self._outbox.line

    # -- a turn --

    def _turn(self) -> bool:
        if not self._attached:
            self._observe(self._coordinator.attach)
            self._attached = True
        if self._clock.monotonic() >= self._next_sweep:
            self._sweep()
        elif self._woken:
            self._glance()
        self._register()
        if not self._time.steady or self._quiet():
            return False
        more = self._dispatch()
        self._errands.run()
        self._desk.run(self._time.now())
        self._report_unrouted()
        if self._reaper.run() or self._outbox.released:
            self._outbox.released = False
            self.woken()  # somebody's turn has come: seen to in the next tick, not a sweep later
        return more

    def _sweep(self) -> None:
        self._woken = False
        reply = self._observe(lambda: self._coordinator.sweep(self._beat(), limit=PAGE))
        self._beats = reply.beats
        self._swept_at = reply.reading.now
        # A reading that contradicts the others is settled by the next one: soon.
        interval = min(self._settings.sync_interval, 1.0) if self._time.steady else _SETTLE
        self._next_sweep = self._clock.monotonic() + min(interval, self._until_orphans(reply))
        self._watch.skew(self._time.skew)
        self._outbox.saw(reply)
        further = self._look_further()
        for page in (reply, *further):
            if not page.reading.quiet:
                self._outbox.swept(page, self._time.now())

    def _look_further(self) -> Sequence[SweepReply]:
        """One more page of a long outbox or line, another with each sweep: what is not mirrored is lost with the
        coordinator's memory."""
        behind = self._outbox.pages - 1
        if not behind:
            return ()
        self._page = 1 + self._page % behind
        offset = self._page * PAGE
        reply = self._observe(lambda: self._coordinator.sweep(self._beat(), offset=offset, limit=PAGE))
        self._outbox.saw(reply, self._page)
        return (reply,)

    def _glance(self) -> None:
        """Somebody's turn has come: find it among the oldest, without a look at all who wait behind it."""
        self._woken = False
        reply = self._observe(lambda: self._coordinator.sweep(self._beat(), limit=_GLANCE))
        if len(reply.entries) >= _GLANCE:
            self._next_sweep = self._clock.monotonic()
        self._outbox.committed(reply.entries)
        if not reply.reading.quiet:
            self._outbox.swept(reply, self._time.now())

    def _until_orphans(self, reply: SweepReply) -> float:
        """Seconds until the first pending entry may be without a living owner: looked at then, not a sweep later."""
        seen = {beat.owner: beat.seen for beat in reply.beats}
        owners = {fire.owner for fire in reply.entries if fire.owner != self._identity.owner}
        heartbeat = timedelta(seconds=self._coordinator.timing.heartbeat)
        ends = [max(seen[owner] + heartbeat, reply.reading.judge_from) for owner in owners if owner in seen]
        waits = [(end - reply.reading.now).total_seconds() + 0.005 for end in ends]
        # One that has ended was offered by this sweep already; what was not taken is left to others.
        return max(0.05, min((wait for wait in waits if wait > 0), default=1.0))

    def _beat(self) -> Beat:
        identity = self._identity
        return Beat(
            owner=identity.owner,
            host=identity.host,
            pid=identity.pid,
            version=identity.version,
            started=self._started,
            seen=self._clock.now(),
            skew=self._time.skew,
            tzdata=identity.tzdata,
            claims=self._pace.per_second,
            failing=self._stores.failing,
        )

    def _register(self) -> None:
        wanted = self._stores.registrations()
        for first in range(0, len(wanted), _REGISTER_BATCH):
            self._stores.learn(self._coordinator.register(wanted[first : first + _REGISTER_BATCH]))

    def _dispatch(self) -> bool:
        full = self._settings.batch
        if self._rushing or full <= _FIRST_BATCH:
            more = self._round(full)
        else:
            more = self._round(_FIRST_BATCH)
            if more and not self._outbox.broker_down:  # to wait for a broker once a tick is enough
                more = self._round(full)
        self._rushing = more
        return more

    def _round(self, limit: int) -> bool:
        asked = self._clock.monotonic()
        tickets: list[Ticket] = []
        more = False
        for committed in self._committer.commit(self._time.now(), self._router.routed, limit):
            self._take_in(committed.reading, asked)
            self._outbox.committed(ticket.fire for ticket in committed.tickets)
            self._pace.count(len(committed.tickets))
            tickets.extend(committed.tickets)
            more = more or committed.more
            asked = self._clock.monotonic()
        if tickets:
            self._outbox.send(tickets)
        return more

    def _report_unrouted(self) -> None:
        if self._clock.monotonic() < self._next_unrouted:
            return
        self._next_unrouted = self._clock.monotonic() + self._settings.unrouted_every
        for due in self._stores.due_elsewhere(self._time.now(), self._router.routed, self._settings.batch):
            schedule = due.schedule
            text = f"{schedule.name} is due but no route for kind {schedule.kind!r} is declared in parrot_kinds"
            identity = {"schedule": schedule.name, "schedule_id": schedule.schedule_id}
            fields = {**identity, "kind": schedule.kind, "reason": UNROUTED}
            self._events.emit(Event(events.FIRE_UNROUTED, logging.ERROR, text, fields))

    # -- memory loss --

    def _remember(self, lost: MemoryLost) -> bool:
        """Put back what this beat knows. True: go on at once."""
        registrations, marks = self._stores.remembered()
        memory = Memory(
            registrations=tuple(registrations),
            marks=tuple(marks),
            outbox=self._outbox.mirror,
            line=self._outbox.line,
            seen_at=self._swept_at,
        )
        try:
            self._observe(lambda: self._coordinator.remember(memory))
        except (Unreachable, MemoryLost) as exc:
            self._watch.unreachable(str(exc))
            return False
        self._stores.forget_marks()
        self._next_sweep = self._clock.monotonic()
        fields = {"marks": len(marks), "outbox": len(memory.outbox)}
        text = (
            f"{lost}; {len(marks)} marks and {len(memory.outbox)} unsent fires were put back. "
            "What was in flight in the last second may repeat or lose its outcome"
        )
        self._events.emit(Event(events.MEMORY_LOST, logging.ERROR, text, fields))
        return True

    # -- time --

    def _observe(self, ask: Callable[[], T]) -> T:
        asked = self._clock.monotonic()
        answer = ask()
        self._take_in(answer if isinstance(answer, Reading) else answer.reading, asked)  # type: ignore[attr-defined]
        return answer

    def _take_in(self, reading: Reading, asked: float) -> None:
        steady = self._time.steady or self._reading is None
        self._time.observe(reading.now, asked, self._clock.monotonic())
        self._reading = reading
        self._watch.reachable()
        if steady and not self._time.steady:
            self._watch.stepped()

    def _quiet(self) -> bool:
        return self._reading is not None and self._time.now() < self._reading.quiet_until

    def _lives(self, beat: Beat) -> bool:
        silence = self._time.now() - beat.seen
        return silence <= timedelta(seconds=self._coordinator.timing.heartbeat)

    def _sleep(self) -> float:
        """Until the next due time or the next sweep, at most one sync interval."""
        limit = self._settings.sync_interval
        now = self._clock.monotonic()
        waits = [limit, 0.0 if self._woken else max(0.0, self._next_sweep - now)]
        if not self._time.steady or self._quiet():
            return min(waits)
        following = self._stores.next_due(self._router.routed)
        if following is not None:
            # Still due although this tick did all it could: somebody must act first, so do not spin.
            until = (following - self._time.now()).total_seconds()
            waits.append(until if until > 0 else _SETTLE)
        return min(waits)
