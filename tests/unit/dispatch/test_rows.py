"""Fires whose commit a row decides: what becomes of those left behind, and of a row store at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import pytest

from celery_parrot.dispatch.ticker import TickSettings
from celery_parrot.errors import StoreUnreachable
from celery_parrot.model import events
from celery_parrot.model.fire import Fire, Status
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import Advance, Carried, Stored
from celery_parrot.stores.memory import CodeStore
from celery_parrot.testing import ManualBeat
from tests.simulation.rig import NAMESPACE, Died, Rig, delivery_of, every, sent, told


class Rows(CodeStore):
    """One schedule in a table that its beats share; ``committed`` has the tokens of the commits that got through."""

    name = "db"

    def __init__(self, committed: set[str]) -> None:
        definition = every(60)
        super().__init__([replace(definition, schedule=replace(definition.schedule, store="db"))])
        self.committed = committed
        self.dies = ""
        self.unreadable = False
        self.fault: Exception | None = None

    def advance(self, moves: Sequence[Advance], beat: str) -> Sequence[tuple[Verdict, datetime | None]]:
        if self.dies == "before":
            raise Died
        if isinstance(self.fault, StoreUnreachable):
            raise self.fault
        self.committed.update(move.token for move in moves)
        if self.dies == "after":
            raise Died
        return [(Verdict.COMMITTED, move.plan.new_mark) for move in moves]

    def prove(self, fires: Sequence[Fire]) -> Sequence[bool]:
        return [fire.proof is None or fire.proof.token in self.committed for fire in fires]

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        return [cast(Stored, object()) if self.unreadable else None for _ in names_or_ids]

    def record(self, items: Sequence[Carried]) -> None:
        if self.fault is not None:
            raise self.fault

    def lock_unavailable(self, schedule_ids: Sequence[str]) -> None:
        """Nothing to write down."""

    def prune(self, *, limit: int = 1000) -> int:
        return 0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _beat(rig: Rig, owner: str, rows: Rows) -> ManualBeat:
    client, settings = rig.coordinator.client(), TickSettings(reap_interval=5.0)
    return ManualBeat(client, [rows], rows=[rows], clock=rig.clock, namespace=NAMESPACE, owner=owner, settings=settings)


def _left_behind(rig: Rig, dies: str, *, unreadable: bool = False) -> tuple[ManualBeat, set[str]]:
    """The fire of 60 s, prepared by a beat that died at its commit; the row is gone, or spoilt, when another looks."""
    committed: set[str] = set()
    rows, others = Rows(committed), Rows(committed)
    first, second = _beat(rig, "B1", rows), _beat(rig, "B2", others)
    first.tick(), second.tick()
    rig.keep_touched(60)
    rows.dies = dies
    with pytest.raises(Died):
        first.tick()
    others.remove("s")
    others.unreadable = unreadable
    return second, committed


def test_what_was_committed_and_then_deleted_is_skipped(rig: Rig) -> None:
    """At takeover, and it is said; not left in the outbox for ever."""
    beat, _ = _left_behind(rig, "after")
    beat.run(6)
    record = rig.record(rig.key(60))
    assert (record.status, record.reason) == (Status.SKIPPED, "deleted")
    assert len(told(beat, events.FIRE_SKIPPED)) == 1
    assert sent(beat) == []


def test_what_was_never_committed_and_then_deleted_is_discarded(rig: Rig) -> None:
    """Its row refutes it: no claim, no entry."""
    beat, _ = _left_behind(rig, "before")
    beat.run(6)
    assert rig.coordinator.claims([rig.key(60)]) == [None]
    assert told(beat, events.FIRE_SKIPPED) == []


def test_a_fire_of_a_broken_schedule_stays_pending(rig: Rig) -> None:
    """It is there, it only cannot be read: whoever mends it gets the fire, or the grace ends it."""
    beat, _ = _left_behind(rig, "after", unreadable=True)
    beat.run(6)
    assert rig.status(rig.key(60)) is Status.PENDING


def test_a_row_store_that_refuses_outcomes_for_good_keeps_nobody_from_working(rig: Rig) -> None:
    """A value that does not fit a column, for instance: due times are sent, and the reaper goes on."""
    rows = Rows(set())
    beat = _beat(rig, "B1", rows)
    beat.tick()
    rig.keep_touched(60)
    beat.tick()
    rows.fault = ValueError("value too long for column")
    rig.start(delivery_of(rig.key(60), "t1"))
    beat.run(70)
    assert sent(beat) == [rig.key(60), rig.key(120)]
    assert len(told(beat, events.FIRE_REAPED)) == 1
    assert any("value too long" in text for text in told(beat, events.STORE_FAILED))


def test_a_store_out_of_reach_is_named_once(rig: Rig) -> None:
    """In what is said of it; its due times wait."""
    rows = Rows(set())
    beat = _beat(rig, "B1", rows)
    beat.tick()
    rig.keep_touched(60)
    rows.fault = StoreUnreachable("db", "connection refused")
    beat.tick()
    assert told(beat, events.STORE_FAILED)[0].count("store db: ") == 1
    assert sent(beat) == []


def test_what_the_row_refutes_is_never_asked_for_its_limits(rig: Rig) -> None:
    """A claim that may yet be taken back must not keep others from their turn: whoever finds it proves it first."""
    first, second = Rows(set()), Rows(set())
    grouped = every(60, exclusion_group="gpu")
    for rows in (first, second):
        rows.put(replace(grouped, schedule=replace(grouped.schedule, store="db")))
    dying, other = _beat(rig, "B1", first), _beat(rig, "B2", second)
    asked: list[object] = []
    cast(Any, other.ticker)._outbox._turns._limits.request = asked.extend
    dying.tick(), other.tick()
    rig.keep_touched(60)
    first.dies = "before"
    with pytest.raises(Died):
        dying.tick()
    second.fault = StoreUnreachable("db", "away")  # it commits nothing of its own
    other.run(5)
    assert asked == []
    assert rig.coordinator.limits() == []
    assert sent(other) == []


def test_what_the_row_proves_is_asked_for_and_sent(rig: Rig) -> None:
    committed: set[str] = set()
    first, second = Rows(committed), Rows(committed)
    grouped = every(60, exclusion_group="gpu")
    for rows in (first, second):
        rows.put(replace(grouped, schedule=replace(grouped.schedule, store="db")))
    dying, other = _beat(rig, "B1", first), _beat(rig, "B2", second)
    dying.tick(), other.tick()
    rig.keep_touched(60)
    first.dies = "after"
    with pytest.raises(Died):
        dying.tick()
    other.run(5)
    assert sent(other) == [rig.key(60)]
    (state,) = rig.coordinator.limits()
    assert [holder.fire.key for holder in state.holders] == [rig.key(60)]
