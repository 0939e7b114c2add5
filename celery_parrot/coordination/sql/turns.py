"""The line: how many wait for what, and who comes first of those that want the same."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Select, select

from celery_parrot.coordination.rules.claim import Claim
from celery_parrot.coordination.sql.codec import pack, unpack
from celery_parrot.coordination.sql.unit import Unit
from celery_parrot.database.bulk import delete_in, upsert
from celery_parrot.protocols import Busy, Limit

_AT_ONCE: Final = 32

Ask = Callable[[Select[Any]], list[Claim]]


@dataclass(frozen=True, slots=True)
class _Wanted:
    limits: tuple[Limit, ...]


@dataclass(slots=True)
class _Group:
    """Those in line that want the same.

    :ivar first: the first of them that have been read, in order; ``whole``: these are all. ``read``: it has been looked
        for the first one.
    """

    wants: str
    waiting: int = 0
    stored: int = 0
    first: list[Claim] = field(default_factory=list)
    whole: bool = False
    read: bool = False


class Turns:
    """Groups are few, whoever waits in them may be many: those are read a few at a time.

    :param ask: the claims that a statement finds, with what this operation changed minded.
    """

    def __init__(self, unit: Unit, bodies: Callable[[], Select[Any]], ask: Ask) -> None:
        self._unit, self._bodies, self._ask = unit, bodies, ask
        self._table, self._claims = unit.tables.turns, unit.tables.claims
        self._groups: dict[tuple[Limit, ...], _Group] | None = None

    def wants(self, claim: Claim) -> str | None:
        """What is stored with a claim for what it waits for."""
        return self._unit.wanted(pack(_Wanted(claim.limits))) if claim.arrival else None

    def _known(self) -> dict[tuple[Limit, ...], _Group]:
        if self._groups is None:
            c = self._table.c
            rows = self._unit.connection.execute(
                select(c.wants, c.limits, c.waiting).where(c.space == self._unit.space)
            )
            self._groups = {unpack(_Wanted, r.limits).limits: _Group(r.wants, r.waiting, r.waiting) for r in rows}
        return self._groups

    def wanted(self) -> Collection[tuple[Limit, ...]]:
        return [limits for limits, group in self._known().items() if group.waiting]

    def waiting(self, name: str) -> int:
        return sum(
            group.waiting
            for limits, group in self._known().items()
            if any(limit.name == name and limit.busy is Busy.WAIT for limit in limits)
        )

    def first(self, limits: tuple[Limit, ...]) -> Claim | None:
        group = self._known().get(limits)
        if group is None or not group.waiting:
            return None
        if not group.read:
            self._read_heads()
        if not group.first and not group.whole:
            c = self._claims.c
            statement = self._bodies().where(c.wants == group.wants).order_by(c.due_at, c.arrival)
            group.first = self._ask(statement.limit(_AT_ONCE))
            group.whole = len(group.first) < _AT_ONCE
        return group.first[0] if group.first else None

    def _read_heads(self) -> None:
        """The first of each group, in one statement: there may be a group for each schedule that has ``overlap``."""
        c, t = self._claims.c, self._table.c
        head = select(c.body).where(c.wants == t.wants).order_by(c.due_at, c.arrival).limit(1)
        statement = select(head.scalar_subquery().label("body")).where(t.space == self._unit.space, t.waiting > 0)
        for claim in self._ask(statement):
            group = self._known()[claim.limits]
            if not group.read and not group.first:
                group.first, group.whole = [claim], group.waiting == 1
        for group in self._known().values():
            group.read = True

    def line_page(self, offset: int, limit: int) -> Sequence[Claim]:
        return self._ask(self._in_line().offset(offset).limit(max(limit, 0)))

    def _in_line(self) -> Select[Any]:
        c = self._claims.c
        return self._bodies().where(c.space == self._unit.space, c.arrival > 0).order_by(c.due_at, c.arrival)

    def line(self, names: Collection[str] | None) -> Sequence[Claim]:
        c = self._claims.c
        statement = self._in_line()
        if names is not None:
            asked = [
                group.wants
                for limits, group in self._known().items()
                if group.waiting and any(limit.name in names for limit in limits)
            ]
            if not asked:
                return []
            statement = statement.where(c.wants.in_(asked))
        return self._ask(statement)

    def joined(self, claim: Claim) -> None:
        group = self._known().get(claim.limits)
        if group is None:
            group = self._known()[claim.limits] = _Group(self._unit.wanted(pack(_Wanted(claim.limits))), whole=True)
        group.waiting += 1
        if group.whole or (group.first and _place(claim) < _place(group.first[-1])):
            insort(group.first, claim, key=_place)

    def left(self, claim: Claim) -> None:
        group = self._known()[claim.limits]
        group.waiting -= 1
        group.first = [one for one in group.first if one is not claim]

    def flush(self) -> None:
        """Write how many wait, where that changed."""
        changed = [(limits, group) for limits, group in (self._groups or {}).items() if group.waiting != group.stored]
        gone = [group.wants for _, group in changed if not group.waiting]
        delete_in(self._unit.connection, self._table, self._table.c.wants, gone)
        rows = [
            {
                "wants": group.wants,
                "space": self._unit.space,
                "limits": pack(_Wanted(limits)),
                "waiting": group.waiting,
            }
            for limits, group in changed
            if group.waiting
        ]
        upsert(self._unit.connection, self._table, ["wants"], ["waiting"], rows)
        for _, group in changed:
            group.stored = group.waiting


def _place(claim: Claim) -> tuple[Any, int]:
    return claim.fire.key.due_at, claim.arrival
