"""The read side: what is due, of which kinds, in one round trip; definitions by id."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from celery_parrot.planning import following
from celery_parrot.protocols.outbox import Mark, Registration
from celery_parrot.protocols.stores import Due
from celery_parrot.stores.redis.definitions import Definition, DefinitionCache, fault_of, fingerprint
from celery_parrot.stores.redis.marks import floor_ms, from_score, placed, score
from celery_parrot.stores.redis.server import Scripts

BROKEN_TRIED_AGAIN: Final = timedelta(seconds=60)
"""How often a definition that cannot run is tried again without an edit: a newer release may know better."""

_WHEN = "job"  # as the scripts mark the run state of a definition
_MARKS = 10_000
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class _Row:
    """A candidate as the script told it."""

    kind: str
    schedule_id: str
    raw: bytes
    mark: str
    auto_count: int
    broken: bool


class Scanner:
    """Thread-safe; made for one beat, whose ``next_due`` follows its ``due``."""

    def __init__(self, scripts: Scripts, cache: DefinitionCache) -> None:
        self._scripts, self._cache = scripts, cache
        self._lock = threading.Lock()
        self._next: dict[str, datetime | None] = {}  # by kind, besides those handed out
        self._out: dict[str, tuple[Due, datetime | None]] = {}  # handed out, with the instant they are due at next
        self._marks: OrderedDict[str, Mark] = OrderedDict()

    # --- what is due ---

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> list[Due]:
        """See the protocol."""
        wanted = sorted(set(kinds))
        if not wanted or limit <= 0:
            return []
        found, nexts = self._scan({"kinds": wanted}, before, limit)
        with self._lock:
            self._next = nexts
            self._out = {due.schedule.schedule_id: (due, before) for due in found}
            for due in found:
                self._note(Mark(schedule_id=due.schedule.schedule_id, last_due=due.mark))
        return found

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> list[Due]:
        """See the protocol."""
        return self._scan({"except": sorted(set(kinds))}, before, limit)[0] if limit > 0 else []

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """See the protocol. Costs nothing after a :meth:`due` of these kinds."""
        wanted = sorted(set(kinds))
        if not wanted:
            return None
        with self._lock:
            if all(kind in self._next for kind in wanted):
                instants = [self._next[kind] for kind in wanted]
                instants += [at for due, at in self._out.values() if due.schedule.kind in wanted]
                return min((at for at in instants if at is not None), default=None)
        _, (flat, _) = self._scripts.one("due", {"kinds": wanted, "before": "-inf", "limit": 0})
        return min((at for at in map(from_score, flat[1::2]) if at is not None), default=None)

    def forget(self) -> None:
        """This process changed something: what is known of the next instants is old."""
        with self._lock:
            self._next = {}

    def _scan(
        self, which: Mapping[str, Any], before: datetime, limit: int
    ) -> tuple[list[Due], dict[str, datetime | None]]:
        payload = {**which, "before": floor_ms(before), "limit": limit}
        found: list[Due] = []
        nexts: dict[str, datetime | None] = {}
        for _ in range(_ROUNDS):
            _, (flat, rows) = self._scripts.one("due", payload)
            nexts = {kind.decode(): from_score(at) for kind, at in zip(flat[::2], flat[1::2], strict=True)}
            found, wrong = self._judge([_row(row) for row in rows], before)
            if wrong:
                self._scripts.each("place", "items", wrong)
            # Those that turned out not to be due may have kept others out of the batch.
            if found or not wrong:
                break
        return found, nexts

    def _judge(self, rows: Sequence[_Row], before: datetime) -> tuple[list[Due], list[dict[str, Any]]]:
        """Those that are due indeed; the others are put where they belong, or aside with the reason."""
        found: list[Due] = []
        wrong: list[dict[str, Any]] = []
        latest = int(floor_ms(before))
        for row in rows:
            definition = self._cache.get(row.schedule_id, row.raw)
            schedule, trigger, fault = definition.schedule, definition.trigger, definition.fault
            at, mark = None, datetime.fromisoformat(row.mark)
            if schedule is not None and trigger is not None:
                try:
                    at = following(schedule, trigger, mark, row.auto_count)
                except Exception as exc:  # what a trigger may raise: the others run
                    fault = fault_of(exc)
            # Of another kind now, by a client that only changed the text: it is due there, not here.
            moved = schedule is not None and schedule.kind != row.kind
            if fault or moved or at is None or int(score(at)) > latest:
                wrong.append(_placement(row, definition, mark, fault, before))
                continue
            assert schedule is not None
            assert trigger is not None
            found.append(Due(schedule, trigger, mark))
            if row.broken:
                wrong.append(_placement(row, definition, mark, fault, before))
        return found, wrong

    # --- definitions ---

    def definitions(self, schedule_ids: Sequence[str]) -> dict[str, Due]:
        """See the protocol. A broken one has no trigger and is not handed out; its fires stay pending."""
        found: dict[str, Due] = {}
        _, replies = self._scripts.each("brief", "ids", list(schedule_ids))
        for schedule_id, reply in zip(schedule_ids, replies, strict=True):
            if not reply:
                continue
            raw, mark, held = reply
            definition = self._cache.get(schedule_id, raw)
            if definition.schedule is not None and definition.trigger is not None and mark:
                since = datetime.fromisoformat(mark.decode())
                found[schedule_id] = Due(definition.schedule, definition.trigger, since, held.decode() or None)
        return found

    # --- marks ---

    def learn(self, marks: Iterable[Mark]) -> None:
        """What a commit came to: the next instant of what was handed out follows from it."""
        with self._lock:
            for mark in marks:
                known = self._out.get(mark.schedule_id)
                if known is None:
                    continue
                due = known[0]
                at = None
                if mark.held is None:
                    try:
                        at = from_score(score(placed(due.schedule, due.trigger, mark.last_due)))
                    except Exception:  # the next scan says so
                        at = known[1]
                self._out[mark.schedule_id] = (due, at)
                self._note(mark)

    def remembered(self) -> tuple[list[Registration], list[Mark]]:
        """Marks that passed by lately: a server that lost its last writes takes the later of both."""
        with self._lock:
            marks = list(self._marks.values())
        return [Registration(schedule_id=mark.schedule_id, when=_WHEN) for mark in marks], marks

    def _note(self, mark: Mark) -> None:
        self._marks[mark.schedule_id] = mark
        self._marks.move_to_end(mark.schedule_id)
        while len(self._marks) > _MARKS:
            self._marks.popitem(last=False)


def _row(reply: Sequence[bytes]) -> _Row:
    kind, schedule_id, raw, mark, count, broken = reply
    return _Row(kind.decode(), schedule_id.decode(), raw, mark.decode(), int(count), bool(broken))


def _placement(row: _Row, definition: Definition, mark: datetime, fault: str, before: datetime) -> dict[str, Any]:
    schedule, trigger = definition.schedule, definition.trigger
    at = None
    if not fault and schedule is not None and trigger is not None:
        at = placed(schedule, trigger, mark)
    item: dict[str, Any] = {
        "id": row.schedule_id,
        "kind": row.kind if schedule is None else schedule.kind,
        "found_in": row.kind,
        "sha": fingerprint(row.raw),
        "mark": row.mark,
        "at": score(before + BROKEN_TRIED_AGAIN) if fault else score(at),
        "broken": fault,
    }
    if schedule is not None and schedule.policy.max_fires is not None:
        item["max_fires"] = schedule.policy.max_fires
    return item
