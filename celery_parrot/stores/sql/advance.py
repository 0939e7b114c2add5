"""The row decides: moving marks by compare-and-set, and proving that they moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from celery_parrot.database.bulk import chunks, insert_absent, update_each
from celery_parrot.database.types import utc_now
from celery_parrot.model.fire import Fire, FireKey, Namespace, Status
from celery_parrot.model.plan import NotFired, Plan, PlannedFire, Verdict
from celery_parrot.model.schedule import as_uuid
from celery_parrot.protocols import About, Parcel
from celery_parrot.protocols.ledger import Advance
from celery_parrot.stores.sql import history
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.owed import Owed, missed_of

Answer = tuple[Verdict, datetime | None]

_BATCH = 500


@dataclass(slots=True)
class _State:
    """One locked row, as the moves of a batch change it."""

    version: int
    enabled: bool
    disabled_by: str | None
    last_due: datetime | None
    auto_count: int
    next_run: datetime | None = None


def judge(state: _State | None, plan: Plan) -> Verdict:
    """Whether a plan still holds for its row. The compare of compare-and-set; the row is locked meanwhile."""
    if state is None:
        return Verdict.UNKNOWN
    if state.disabled_by is not None or not state.enabled:
        return Verdict.HELD
    if state.last_due != plan.expected_mark:
        return Verdict.MOVED
    if plan.expected_version is not None and state.version != plan.expected_version:
        return Verdict.MOVED
    return Verdict.COMMITTED


class Advancer:
    """:param namespace: names fires whose id nobody told; None: their id comes with :meth:`record`."""

    def __init__(self, database: Database, log: history.History, owed: Owed, namespace: Namespace | None) -> None:
        self._db, self._log, self._owed, self._namespace = database, log, owed, namespace

    def advance(self, moves: Sequence[Advance], beat: str) -> list[Answer]:
        """See the protocol."""
        answers: list[Answer] = []
        for some in chunks(moves, _BATCH):
            answers += self._db.write(lambda connection, some=some: self._advance(connection, some, beat))  # type: ignore[misc]
        self._log.moved([move.plan.schedule_id for move in moves])
        return answers

    def _advance(self, connection: Connection, moves: Sequence[Advance], beat: str) -> list[Answer]:
        states = self._lock(connection, [move.plan.schedule_id for move in moves])
        now = connection.execute(select(utc_now())).scalar_one()
        assert now is not None
        entries: list[Mapping[str, Any]] = []
        owed: list[Parcel] = []
        answers: list[Answer] = []
        moved: set[str] = set()
        for move in moves:
            state = states.get(move.plan.schedule_id)
            verdict = judge(state, move.plan)
            if state is not None and verdict is Verdict.COMMITTED:
                entries += self._apply(state, move, beat, now)
                owed += _to_tell(move.plan, now)
                moved.add(move.plan.schedule_id)
            answers.append((verdict, None if state is None else state.last_due))
        fires = self._db.fires
        insert_absent(connection, fires, history.COMMIT_COLUMNS, entries)
        self._owed.add(connection, owed)
        update_each(
            connection,
            self._db.schedules,
            ("schedule_id",),
            ("last_due", "next_run", "auto_count"),
            [
                {
                    "schedule_id": id_,
                    "last_due": states[id_].last_due,
                    "next_run": states[id_].next_run,
                    "auto_count": states[id_].auto_count,
                }
                for id_ in sorted(moved)
            ],
        )
        self._recognise(connection, moves, answers)
        return answers

    def _lock(self, connection: Connection, schedule_ids: Sequence[str]) -> dict[str, _State]:
        """The rows, locked in one order, so that two batches never wait for each other."""
        c = self._db.schedules.c
        known = self._ids(schedule_ids)
        query = (
            select(c.schedule_id, c.version, c.enabled, c.disabled_by, c.last_due, c.auto_count)
            .where(c.schedule_id.in_(known))
            .order_by(c.schedule_id)
            .with_for_update()
        )
        return {
            row.schedule_id: _State(row.version, bool(row.enabled), row.disabled_by, row.last_due, row.auto_count)
            for row in connection.execute(query)
        }

    def _ids(self, schedule_ids: Sequence[str]) -> list[str]:
        """Ids that may be in the column at all; PostgreSQL refuses to compare others."""
        return [id_ for id_ in dict.fromkeys(schedule_ids) if not self._db.postgresql or as_uuid(id_) is not None]

    def _apply(self, state: _State, move: Advance, beat: str, now: datetime) -> list[Mapping[str, Any]]:
        """Change the state as the plan says; the history rows of that. Fires that ``max_fires`` has no room for have
        none."""
        plan = move.plan
        ids = {key.due_at: id_ for key, id_ in move.fires}
        entries: list[Mapping[str, Any]] = []
        prepared = [fire for fire in plan.fires if fire.due_at in ids]
        for planned in prepared:
            automatic = planned.origin in history.AUTOMATIC
            if automatic and plan.max_fires is not None and state.auto_count >= plan.max_fires:
                continue
            state.auto_count += automatic
            entries.append(_fire_row(move, planned, ids[planned.due_at], beat, now))
        for gone in plan.not_fired:
            entries.append(history.range_row(_range(plan, gone), beat=beat, token=move.token, now=now))
        assert state.last_due is not None
        state.last_due = max(state.last_due, plan.new_mark)
        exhausted = plan.max_fires is not None and state.auto_count >= plan.max_fires
        state.next_run = None if exhausted else plan.next_at
        return entries

    def _recognise(self, connection: Connection, moves: Sequence[Advance], answers: list[Answer]) -> None:
        """Moves that lost to themselves: got through before, and only the answer was lost."""
        lost = {
            index: move
            for index, move in enumerate(moves)
            if answers[index][0] is not Verdict.COMMITTED and self._ids([move.plan.schedule_id])
        }
        if not lost:
            return
        fires = self._db.fires
        query = select(fires.c.schedule_id, fires.c.due_at, fires.c.token).where(
            fires.c.schedule_id.in_({move.plan.schedule_id for move in lost.values()}),
            fires.c.token.in_({move.token for move in lost.values()}),
        )
        found = {(row.schedule_id, row.due_at, row.token) for row in connection.execute(query)}
        for index, move in lost.items():
            plan = move.plan
            decided = [fire.due_at for fire in plan.fires] + [gone.first for gone in plan.not_fired]
            if any((plan.schedule_id, due_at, move.token) in found for due_at in decided):
                answers[index] = (Verdict.COMMITTED, answers[index][1])

    def prove(self, fires: Sequence[Fire]) -> list[bool]:
        """See the protocol. A fire that its plan had no room for proves false."""
        moves: dict[tuple[str, str], Advance] = {}
        beats: dict[str, list[Advance]] = {}
        for fire in fires:
            if fire.proof is None:
                continue
            at = (fire.proof.token, fire.key.schedule_id)
            if at not in moves:
                moves[at] = self._move(fire)
                beats.setdefault(fire.owner, []).append(moves[at])
        for beat, some in beats.items():
            self.advance(some, beat)
        proven = self._written([fire for fire in fires if fire.proof is not None])
        return [fire.proof is None or (fire.key, fire.proof.token) in proven for fire in fires]

    def _move(self, fire: Fire) -> Advance:
        """The whole move that a fire was prepared in: its siblings may be gone from the outbox already."""
        assert fire.proof is not None
        plan = Plan.from_json(fire.proof.plan)
        keys = [FireKey(plan.schedule_id, planned.due_at) for planned in plan.fires]
        name = self._namespace.fire_id if self._namespace is not None else lambda key: ""
        return Advance(plan=plan, token=fire.proof.token, fires=tuple((key, name(key)) for key in keys))

    def _written(self, fires: Sequence[Fire]) -> set[tuple[FireKey, str]]:
        c = self._db.fires.c
        ids = self._ids([fire.key.schedule_id for fire in fires])
        tokens = {fire.proof.token for fire in fires if fire.proof is not None}
        if not ids:
            return set()
        query = select(c.schedule_id, c.due_at, c.nonce, c.token).where(c.schedule_id.in_(ids), c.token.in_(tokens))
        rows = self._db.read(lambda connection: connection.execute(query).all())
        return {(FireKey(row.schedule_id, row.due_at, row.nonce), row.token) for row in rows}


def _range(plan: Plan, gone: NotFired) -> history.Range:
    return history.Range(
        key=FireKey(plan.schedule_id, gone.first),
        until=gone.last,
        count=gone.count,
        status=gone.status,
        reason=gone.reason,
        name=plan.name,
        kind=plan.kind,
    )


def _to_tell(plan: Plan, now: datetime) -> list[Parcel]:
    """Of the due times that the plan leaves out, where somebody wants to be told of those that are missed."""
    if About.MISSED not in plan.tells:
        return []
    return [parcel for gone in plan.not_fired if (parcel := missed_of(_range(plan, gone), now)) is not None]


def _fire_row(move: Advance, planned: PlannedFire, fire_id: str, beat: str, now: datetime) -> Mapping[str, Any]:
    return {
        "schedule_id": move.plan.schedule_id,
        "due_at": planned.due_at,
        "nonce": "",
        "fire_id": fire_id or None,
        "token": move.token,
        "status": str(Status.PENDING),
        "reason": None,
        "origin": str(planned.origin),
        "kind": move.plan.kind,
        "name": move.plan.name,
        "beat": beat,
        "committed_at": now,
        "finished_at": None,
        "until": None,
        "count": 1,
    }
