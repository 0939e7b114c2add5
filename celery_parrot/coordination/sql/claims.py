"""Claims in a table: read in batches, written back in one go where they changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

from sqlalchemy import Select, select

from celery_parrot.coordination.rules.claim import Claim, Moment, moment_of, moments_of
from celery_parrot.coordination.sql.codec import pack, unpack
from celery_parrot.coordination.sql.tables import moment_column
from celery_parrot.coordination.sql.turns import Turns
from celery_parrot.coordination.sql.unit import Unit, readable
from celery_parrot.database.bulk import delete_in, select_in, upsert
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import Timing


class Claims:
    """The claims that one operation has asked for, and those that it made."""

    def __init__(self, unit: Unit, timing: Timing) -> None:
        self._unit, self._timing = unit, timing
        self._table = unit.tables.claims
        self._known: dict[FireKey, Claim | None] = {}
        self._stored: dict[FireKey, Claim] = {}  # as the table has them
        self._gone: set[FireKey] = set()
        self._stale = False  # the table lacks something that a question might be about
        self.turns = Turns(unit, self._bodies, self._ask)
        self.freed = False  # somebody may take what nobody could before

    # --- one by one ---

    def find(self, key: FireKey) -> Claim | None:
        if key not in self._known:
            self._load({key: None, **self._unit.hinted})
        return self._known[key]

    def _load(self, keys: Iterable[FireKey]) -> None:
        wanted = {self._unit.fire_id(key): key for key in keys if key not in self._known}
        self._known.update(dict.fromkeys(wanted.values()))
        for row in select_in(self._unit.connection, self._table, ["body"], "fire_id", list(wanted)):
            self._adopt(row.body)

    def _bodies(self) -> Select[Any]:
        return select(self._table.c.body)

    def _adopt(self, body: str) -> Claim | None:
        """A stored claim, as this operation knows it; None if it has forgotten it."""
        claim = unpack(Claim, body)
        key = claim.fire.key
        if key in self._gone or self._known.get(key) is not None:
            return self._known[key]
        self._known[key], self._stored[key] = claim, copy(claim)
        return claim

    def put(self, claim: Claim) -> None:
        key = claim.fire.key
        self._known[key] = claim
        self._gone.discard(key)
        self._stale = True

    def changed(self) -> None:
        self._stale = True

    def forget(self, key: FireKey) -> None:
        self._known[key] = None
        self._gone.add(key)
        self._stale = True

    # --- by a question ---

    def _ask(self, statement: Select[Any]) -> list[Claim]:
        """What the table answers, with what this operation changed written there before."""
        if self._stale:
            self.flush()
        found = [self._adopt(row.body) for row in self._unit.connection.execute(statement)]
        return [claim for claim in found if claim is not None]

    def soonest(self, moment: Moment, limit: int, holding: bool) -> Sequence[Claim]:
        column = self._table.c[moment_column(moment)]
        statement = self._bodies().where(self._table.c.space == self._unit.space, column <= self._unit.now)
        if holding:
            statement = statement.where(self._table.c.limited)
        claims = self._ask(statement.order_by(column).limit(max(limit, 0)))
        due = [
            (at, claim.fire.key, claim)
            for claim in claims
            if (at := moment_of(claim, moment, self._timing)) is not None and at <= self._unit.now
        ]
        for _, key, _ in due:
            self._unit.hint(key)
        return [claim for _, _, claim in sorted(due, key=lambda item: item[:2])]

    def _pending(self) -> Select[Any]:
        c = self._table.c
        return self._bodies().where(c.space == self._unit.space, c.status == Status.PENDING.value)

    def outbox_page(self, offset: int, limit: int) -> Sequence[Claim]:
        c = self._table.c
        return self._ask(self._pending().order_by(c.committed_at, c.fire_key).offset(offset).limit(max(limit, 0)))

    def owned_by(self, owner: str) -> Sequence[Claim]:
        return self._ask(self._pending().where(self._table.c.owner == owner).order_by(self._table.c.fire_id))

    def mirrored(self, epoch: str) -> Sequence[Claim]:
        claims = [*self._ask(self._pending()), *self.turns.line(None)]
        return sorted((c for c in claims if c.mirrored == epoch), key=lambda claim: claim.fire.key)

    def forget_expired(self, limit: int) -> None:
        """Without looking at them."""
        if self._stale:
            self.flush()
        c = self._table.c
        statement = select(c.fire_id).where(
            c.space == self._unit.space, c[moment_column(Moment.EXPIRES)] <= self._unit.now
        )
        found = self._unit.connection.execute(statement.limit(limit)).scalars().all()
        delete_in(self._unit.connection, self._table, c.fire_id, found)

    # --- the line ---

    def joined(self, claim: Claim) -> None:
        self._stale = True
        self.turns.joined(claim)

    def unqueue(self, claim: Claim) -> bool:
        if not claim.arrival:
            return False
        self.turns.left(claim)
        claim.arrival = 0
        self._stale = True
        return True

    # --- writing ---

    def flush(self) -> None:
        """Write what changed since it was read or last written."""
        connection = self._unit.connection
        gone = [key for key in self._gone if self._known.get(key) is None]
        changed = [c for key, c in self._known.items() if c is not None and self._stored.get(key) != c]
        delete_in(connection, self._table, self._table.c.fire_id, [self._unit.fire_id(key) for key in gone])
        rows = [self._row(claim) for claim in changed]
        if rows:
            upsert(connection, self._table, ["fire_id"], [name for name in rows[0] if name != "fire_id"], rows)
        self.turns.flush()
        for claim in changed:
            before = self._stored.get(claim.fire.key)
            self.freed |= claim.free and not (before is not None and before.free)
            self._stored[claim.fire.key] = copy(claim)
        for key in gone:
            self._stored.pop(key, None)
        self._gone.clear()
        self._stale = False

    def _row(self, claim: Claim) -> dict[str, Any]:
        fire = claim.fire
        moments = moments_of(claim, self._timing)
        return {
            "fire_id": self._unit.fire_id(fire.key),
            "space": self._unit.space,
            "fire_key": readable(fire.key.text),
            "due_at": fire.key.due_at,
            "status": fire.status.value,
            "owner": fire.owner,
            "committed_at": fire.committed_at,
            "limited": bool(claim.limits),
            "wants": self.turns.wants(claim),
            "arrival": claim.arrival,
            **{moment_column(moment): moments.get(moment) for moment in Moment},
            "body": pack(claim),
        }
