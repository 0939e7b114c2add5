"""Three beats start within two seconds after an outage of three hours, their clocks 0.2 s apart (trace 23)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from celery_parrot.dispatch.routing import HEADER
from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.model.schedule import Missed, Policy
from celery_parrot.testing.conformance.schedule_store import make
from tests.integration.ledgers.scene import OnRedis, settle

EVERY = 60
OUTAGE = 3 * 3600

#: Name, policy, fires for the backlog, reasons of what is missed.
PROMISED: dict[str, tuple[Policy, int, set[str]]] = {
    "coalesce": (Policy(misfire_grace=None), 1, {"coalesced"}),
    "coalesce with grace": (Policy(misfire_grace=300.0), 1, {"coalesced", "too_late"}),
    "catch up": (Policy(missed=Missed.CATCH_UP, misfire_grace=None), 100, {"capped"}),
    "catch up all": (Policy(missed=Missed.CATCH_UP, misfire_grace=None, catch_up_limit=1000), 180, set()),
    "catch up with grace": (Policy(missed=Missed.CATCH_UP, misfire_grace=590.0), 10, {"too_late"}),
    "skip": (Policy(missed=Missed.SKIP), 0, {"too_late"}),
    "bounded": (Policy(missed=Missed.CATCH_UP, misfire_grace=None, max_fires=3), 3, {"capped"}),
}


def recover(scene: OnRedis) -> datetime:
    """Each schedule has a due time just before the outage begins and 180 in it; then three beats start. The mark that
    the backlog is counted from."""
    # The last due time is 20 s old when the beats start, so that it is late and no other comes while they work.
    offset = (scene.now().timestamp() - 20) % EVERY
    scene.store.insert(
        [
            make(name, kind="agent", policy=policy, store=scene.store.name,
                 schedule_config={"seconds": EVERY, "offset": offset})
            for name, (policy, _, _) in PROMISED.items()
        ]
    )  # fmt: skip
    scene.store.due(scene.now(), ["agent"], 100)
    (start,) = {due.mark for due in scene.store.definitions([make("skip").schedule_id]).values()}
    assert isinstance(start, datetime)
    scene.advance(OUTAGE)
    for number in range(3):
        beat = scene.beat()
        coordinator: Any = beat.ticker._coordinator
        coordinator._real.clock_offset += 0.2 * number
        settle(beat)
        scene.advance(0.7)
    scene.run(3)
    return start


def wrong(scene: OnRedis, start: datetime) -> list[str]:
    """What was promised and is not so."""
    found: list[str] = []
    ids = [message.task_id for message in scene.sent()]
    if len(ids) != len(set(ids)):
        found.append(f"{len(ids) - len(set(ids))} sent twice")
    for name, (policy, fires, reasons) in PROMISED.items():
        entries: list[FireRecord] = list(scene.store.fires(make(name).schedule_id, limit=1000))
        sent = {m.headers[HEADER]["due_at"] for m in scene.sent() if m.headers[HEADER]["name"] == name}
        missed = [entry for entry in entries if entry.status is Status.MISSED]
        if len(sent) != fires:
            found.append(f"{name}: {len(sent)} fires, {fires} promised")
        if {entry.reason for entry in missed} != reasons:
            found.append(f"{name}: missed because of {sorted(entry.reason for entry in missed)}")
        if policy.max_fires is not None:
            continue
        decided = sorted(due_at for entry in entries for due_at in due_times(entry))
        expected = [decided[0] + timedelta(seconds=EVERY * n) for n in range(180)] if decided else []
        if decided != expected or not decided or not (start < decided[0] <= start + timedelta(seconds=EVERY)):
            found.append(f"{name}: {len(decided)} due times have a fate, {len(set(decided))} different ones, not 180")
    return found


def due_times(entry: FireRecord) -> list[datetime]:
    """What one entry of the history stands for."""
    return [entry.due_at + timedelta(seconds=EVERY * number) for number in range(entry.count)]


def test_exactly_the_promised_fires(scene: OnRedis) -> None:
    """Every due time is fired, missed or skipped, exactly one of them, by one of the three."""
    start = recover(scene)
    assert wrong(scene, start) == []


def test_without_the_compare_of_the_mark_it_would_not(sqlite: OnRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats that neither compare nor claim each fire their own idea of the backlog."""
    from dataclasses import replace

    from celery_parrot.model.plan import Verdict
    from celery_parrot.stores.sql import SqlStore

    offset = timedelta(seconds=OUTAGE + 20)
    due = SqlStore.due

    def stale(self: SqlStore, before: datetime, kinds: Any, limit: int) -> Any:
        return [replace(one, mark=one.mark - offset) for one in due(self, before, kinds, limit)]

    monkeypatch.setattr(SqlStore, "due", stale)
    monkeypatch.setattr(
        SqlStore, "advance", lambda self, moves, beat: [(Verdict.COMMITTED, move.plan.new_mark) for move in moves]
    )
    start = recover(sqlite)
    assert wrong(sqlite, start) != []


def test_max_fires_over_several_beats(rows: OnRedis) -> None:
    """Of several fires of one plan no more are sent than the bound has room for: the earliest, whoever sends."""
    offset = (rows.now().timestamp() - 20) % EVERY
    policy = Policy(missed=Missed.CATCH_UP, misfire_grace=None, max_fires=2)
    made = make("few", kind="agent", policy=policy, store="db", schedule_config={"seconds": EVERY, "offset": offset})
    rows.store.insert([made])
    rows.store.due(rows.now(), ["agent"], 10)
    rows.advance(10 * EVERY)
    for _ in range(3):
        settle(rows.beat())
    rows.run(14)
    dues = rows.due_times()
    assert len(dues) == len(set(dues)) == 2
    fired = [entry.due_at for entry in rows.store.fires(made.schedule_id) if entry.status is Status.SENT]
    assert sorted(due_at.isoformat() for due_at in fired) == dues
    first, second = sorted(fired)
    assert (second - first).total_seconds() == EVERY
    (stored,) = rows.store.get(["few"])
    assert (stored.state, stored.run_state.run_count) == ("completed", 2)


def test_max_fires_where_a_beat_dies_between_the_steps(rows: OnRedis) -> None:
    """The beat that finds the entries sends those that the row has room for, and takes back the others."""
    from tests.integration.ledgers.scene import Died, die, wire_of

    offset = (rows.now().timestamp() - 20) % EVERY
    policy = Policy(missed=Missed.CATCH_UP, misfire_grace=None, max_fires=2)
    made = make("few", kind="agent", policy=policy, store="db", schedule_config={"seconds": EVERY, "offset": offset})
    rows.store.insert([made])
    rows.store.due(rows.now(), ["agent"], 10)
    first, second = rows.beat(), rows.beat()
    settle(first)
    settle(second)
    rows.advance(5 * EVERY)
    wire_of(first).after("prepare", die)
    with pytest.raises(Died):
        first.tick()
    rows.run(16, second)
    dues = rows.due_times()
    assert len(dues) == len(set(dues)) == 2
    assert [entry.status for entry in rows.store.fires(made.schedule_id)].count(Status.SENT) == 2
