"""Scan, plan, commit: what a beat makes of what is due."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

import pytest

from celery_parrot.dispatch.committer import Committer
from celery_parrot.dispatch.ledgers import Ledgers, SharedLedger
from celery_parrot.dispatch.stores import Stores
from celery_parrot.dispatch.telling import Teller
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model import events
from celery_parrot.model.fire import Origin
from celery_parrot.protocols import Mark, Memory
from celery_parrot.stores.memory import CodeStore
from celery_parrot.testing import ManualBeat, RecordingEvents
from tests.simulation.rig import NAMESPACE, Rig, every

KINDS = frozenset({"task"})


class Faulty(CodeStore):
    """Hands out the schedules named in :attr:`bad` with a trigger that raises."""

    bad: frozenset[str] = frozenset()
    reason = "no ephemeris"

    def due(self, *args: Any) -> Any:
        return [self._spoil(due) for due in super().due(*args)]

    def _spoil(self, due: Any) -> Any:
        if due.schedule.schedule_id not in self.bad:
            return due
        return type(due)(due.schedule, _Raising(self.reason), due.mark, due.held)


class _Raising:
    deterministic = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def next_after(self, t: datetime) -> datetime:
        raise RuntimeError(self._reason)

    latest_at = next_after

    def to_config(self) -> tuple[str, dict[str, Any]]:
        return "foreign", {}

    def describe(self) -> str:
        return ""


class Fixture:
    def __init__(self, rig: Rig) -> None:
        self.rig, self.sink = rig, RecordingEvents()
        self.store = Faulty([every(60, "a"), every(60, "b")])
        self.coordinator = rig.coordinator
        self.coordinator.attach()
        stores = Stores([self.store], self.sink, rig.clock)
        ledgers = Ledgers(SharedLedger(self.coordinator))
        teller = Teller(NAMESPACE, self.sink)
        self.committer = Committer(ledgers, stores, rig.clock, self.sink, teller, "B1", on_time=10.0)
        self.store.learn(self.coordinator.register(self.store.registrations()))

    def commit(self, limit: int = 10) -> list[Any]:
        return list(self.committer.commit(self.rig.clock.now(), KINDS, limit))

    def texts(self, name: str) -> list[str]:
        return [event.text for event in self.sink.named(name)]


@pytest.fixture
def beat() -> Fixture:
    return Fixture(Rig())


def test_nothing_due_asks_nobody(beat: Fixture) -> None:
    """No round trip for an empty tick."""
    assert beat.commit() == []


def test_what_is_due_becomes_tickets_of_ours(beat: Fixture) -> None:
    """Owned by this beat, young from before the call, with the definition they were planned from."""
    beat.rig.clock.advance(60)
    (committed,) = beat.commit()
    assert [ticket.fire.key for ticket in committed.tickets] == [beat.rig.key(60, "a"), beat.rig.key(60, "b")]
    ticket = committed.tickets[0]
    assert (ticket.fire.owner, ticket.hold.tries, ticket.since) == ("B1", 0, beat.rig.clock.monotonic())
    assert (ticket.due.schedule.name, ticket.due.mark) == ("a", beat.rig.at(60))
    assert committed.reading.now == beat.rig.clock.now()
    assert not committed.more
    assert len(beat.texts(events.FIRE_CLAIMED)) == 2


def test_a_committed_due_time_is_never_scanned_again(beat: Fixture) -> None:
    """The mark that the commit told is learned at once."""
    beat.rig.clock.advance(60)
    beat.commit()
    assert beat.commit() == []


def test_one_schedule_that_cannot_be_planned_delays_no_other(beat: Fixture) -> None:
    """Reported once for a reason, again for another, and it runs when it can."""
    beat.store.bad = frozenset({"a"})
    beat.rig.clock.advance(60)
    (committed,) = beat.commit()
    assert [ticket.fire.name for ticket in committed.tickets] == ["b"]
    beat.commit()
    assert beat.texts(events.SCHEDULE_BROKEN) == [
        "a: its due times cannot be computed, all others run: RuntimeError: no ephemeris"
    ]
    beat.store.reason = "still none"
    beat.commit()
    assert len(beat.texts(events.SCHEDULE_BROKEN)) == 2
    beat.store.bad = frozenset()
    (committed,) = beat.commit()
    assert [ticket.fire.name for ticket in committed.tickets] == ["a"]


def test_more_than_a_batch_that_cannot_be_planned_delay_no_other_for_long() -> None:
    """They stay due, and came due before it."""
    rig = Rig()
    client = rig.coordinator.client()
    store = Faulty([*(every(5, f"bad{n}") for n in range(70)), every(60, "good")])
    store.bad = frozenset(f"bad{n}" for n in range(70))
    beat = ManualBeat(client, [store], clock=rig.clock, namespace=NAMESPACE)
    beat.run(65)
    assert [message.headers["parrot"]["schedule_id"] for message in beat.sent] == ["good"]


def test_losing_is_normal(beat: Fixture) -> None:
    """Another beat was first: a debug line, its mark is learned, and it is looked again at once."""
    beat.rig.clock.advance(60)
    other = beat.rig.beat("B2", every(60, "a"), every(60, "b"))
    other.tick()
    (committed,) = beat.commit()
    assert committed.tickets == ()
    assert committed.more
    lost = beat.sink.named(events.CLAIM_LOST)
    assert [event.level for event in lost] == [logging.DEBUG] * 2
    assert beat.commit() == []


def test_a_mark_nobody_knows_is_registered_again(beat: Fixture) -> None:
    """``UNKNOWN``: it is asked for again, and nothing of what was known before is lost with it."""
    beat.rig.clock.advance(60)
    with beat.coordinator.server.space(beat.coordinator.namespace, beat.coordinator.timing) as space:
        del space.states["a"]
    beat.commit()
    (registration,) = beat.store.registrations()
    assert (registration.schedule_id, registration.initial) == ("a", beat.rig.at(0))


@pytest.mark.parametrize("why", ["person", "failures"])
def test_a_held_schedule_is_not_asked_for_all_the_time(beat: Fixture, why: str) -> None:
    """Paused or disabled: nothing is written, nothing is due any more; its due times are kept for whoever resumes."""
    with beat.coordinator.server.space(beat.coordinator.namespace, beat.coordinator.timing) as space:
        state = space.states["a"]
        state.run = type(state.run)(last_due=state.run.last_due, disabled_by=why)
    beat.rig.clock.advance(60)
    (committed,) = beat.commit()
    assert [ticket.fire.name for ticket in committed.tickets] == ["b"]
    assert beat.commit() == []
    assert beat.store.definitions(["a"])["a"].held == why
    assert beat.coordinator.fires("a") == []


def test_missed_ranges_are_told_with_their_reason(beat: Fixture) -> None:
    """One warning a range."""
    beat.rig.clock.advance(600)
    (committed,) = beat.commit()
    assert [ticket.fire.origin for ticket in committed.tickets] == [Origin.SCHEDULE] * 2
    texts = beat.texts(events.FIRE_MISSED)
    assert len(texts) == 4
    assert texts[0].startswith("a: 4 due time(s) missed (too_late), 2026-01-01T10:01:00+00:00 to 2026-01-01T10:04:00")
    assert texts[1].startswith("a: 5 due time(s) missed (coalesced)")


def test_a_full_batch_says_that_there_is_more(beat: Fixture) -> None:
    """So the beat does not sleep."""
    beat.rig.clock.advance(60)
    (committed,) = beat.commit(limit=1)
    assert committed.more
    (committed,) = beat.commit(limit=2)
    assert not committed.more


def test_in_quiet_times_nothing_is_committed_and_nobody_spins(beat: Fixture) -> None:
    """After a loss of memory the due times stay due, and the mark is not moved."""
    beat.coordinator.flush()
    registrations, marks = beat.store.remembered()
    beat.coordinator.remember(Memory(registrations=tuple(registrations), marks=tuple(marks)))
    beat.rig.clock.advance(10)
    beat.store.learn([Mark(schedule_id=name, last_due=beat.rig.at(-60)) for name in "ab"])
    (committed,) = beat.commit()
    assert (committed.tickets, committed.more) == ((), False)
    assert committed.reading.quiet


@pytest.mark.parametrize("error", [Unreachable("out"), MemoryLost("x")])
def test_a_coordinator_that_cannot_be_asked_is_the_callers_matter(beat: Fixture, error: Exception) -> None:
    """Raised as it is; what was due stays due."""

    class Out:
        def commit(self, *args: Any) -> Any:
            raise error

    beat.rig.clock.advance(60)
    ledgers: Any = Ledgers(Out())  # type: ignore[arg-type]
    beat.committer._ledgers = ledgers
    with pytest.raises(type(error)):
        beat.commit()
    beat.committer._ledgers = Ledgers(SharedLedger(beat.coordinator))
    assert len(beat.commit()) == 1
