"""Fires that a person asked for: the database hears of them later, and its history has each due time once."""

from __future__ import annotations

from datetime import datetime, timedelta

from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status
from celery_parrot.model.plan import Plan
from celery_parrot.model.schedule import Policy
from celery_parrot.protocols.ledger import Carried
from celery_parrot.testing.conformance.row_store import NAMESPACE, RowScene
from tests.integration.stores_sql.database import SqlDatabase


def _asked(scene: RowScene, made: Plan, due_at: datetime, status: Status, serial: int, **fields: object) -> Carried:
    """What the coordinator tells of a backfilled due time."""
    key = FireKey(made.schedule_id, due_at, str(fields.pop("nonce", "")))
    now = scene.backend.now()
    stamps = {"sent_at": now, "started_at": now, "finished_at": now} if status is Status.SUCCESS else {}
    record = FireRecord(
        fire_id=NAMESPACE.fire_id(key), key=key, name=made.name, kind=made.kind, status=status, committed_at=now,
        **{"origin": Origin.BACKFILL, **stamps, **fields},  # type: ignore[arg-type]
    )  # fmt: skip
    return Carried(record=record, serial=serial)


def _entries(scene: RowScene, made: Plan) -> list[tuple[datetime, datetime, int, Status]]:
    return [
        (one.due_at, one.until or one.due_at, one.count, one.status)
        for one in reversed(scene.s.fires(made.schedule_id))
    ]


def test_an_entry_is_split_around_it(database: SqlDatabase) -> None:
    """In the middle, at the beginning and at the end, in one go and one after the other."""
    scene = RowScene(database)
    _, made = scene.one_due(periods=9, policy=Policy(misfire_grace=None))
    scene.advance(made)
    (gap,) = [run for run in made.not_fired if run.count > 1]
    minute = timedelta(minutes=1)
    first, last = gap.first, gap.last
    assert (gap.count, last - first) == (8, 7 * minute)
    before = [entry for entry in _entries(scene, made) if entry[0] > last]

    pending = [_asked(scene, made, first + 3 * minute, Status.PENDING, 1)]
    scene.s.record(pending)
    scene.s.record(pending)
    assert _entries(scene, made) == [
        (first, first + 2 * minute, 3, Status.MISSED),
        (first + 3 * minute, first + 3 * minute, 1, Status.PENDING),
        (first + 4 * minute, last, 4, Status.MISSED),
        *before,
    ]
    ended = [_asked(scene, made, first + n * minute, Status.SUCCESS, 2, output="ok") for n in (0, 3, 4, 7)]
    scene.s.record(ended)
    assert _entries(scene, made) == [
        (first, first, 1, Status.SUCCESS),
        (first + minute, first + 2 * minute, 2, Status.MISSED),
        (first + 3 * minute, first + 3 * minute, 1, Status.SUCCESS),
        (first + 4 * minute, first + 4 * minute, 1, Status.SUCCESS),
        (first + 5 * minute, first + 6 * minute, 2, Status.MISSED),
        (last, last, 1, Status.SUCCESS),
        *before,
    ]
    state = scene.get("a").run_state
    assert (state.run_count, state.auto_count, state.last_result) == (4, len(made.fires), "ok")
    scene.s.record([_asked(scene, made, first + minute, Status.SUCCESS, 3), _asked(scene, made, last, Status.SENT, 1)])
    assert _entries(scene, made)[1:3] == [
        (first + minute, first + minute, 1, Status.SUCCESS),
        (first + 2 * minute, first + 2 * minute, 1, Status.MISSED),
    ]


def test_a_run_now_stands_beside(database: SqlDatabase) -> None:
    """So does a forced backfill: neither is a due time of the schedule's own."""
    scene = RowScene(database)
    _, made = scene.one_due(periods=4, policy=Policy(misfire_grace=None))
    scene.advance(made)
    before = _entries(scene, made)
    (gap,) = [run for run in made.not_fired if run.count > 1]
    scene.s.record([
        _asked(scene, made, gap.last, Status.PENDING, 1, nonce="n", origin=Origin.RUN_NOW),
        _asked(scene, made, gap.last, Status.PENDING, 1, nonce="forced"),
    ])  # fmt: skip
    after = _entries(scene, made)
    assert [entry for entry in after if entry[3] is not Status.PENDING] == [
        entry for entry in before if entry[3] is not Status.PENDING
    ]
    assert len(after) == len(before) + 2
    scene.s.record([_asked(scene, made, gap.last, Status.SUCCESS, 2, nonce="n", origin=Origin.RUN_NOW)])
    state = scene.get("a").run_state
    assert (state.run_count, state.last_status) == (1, "success")
