"""The code store: definitions that live in this process, ordered by when they are due next. Pure Python, no I/O."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import next_sending
from celery_parrot.protocols import Due, Mark, Registration
from celery_parrot.stores.memory.definition import Definition
from celery_parrot.triggers.base import Trigger

HELD_ASKED_AGAIN = timedelta(seconds=1)
"""How often the mark of a held schedule is asked for again: that is how its resume is noticed."""

FAULT_TRIED_AGAIN = timedelta(seconds=60)
"""How long a trigger that raised is left alone. Until then the schedule is broken."""

OnBroken = Callable[[Schedule, str], None]


@dataclass(slots=True)
class _Item:
    """A definition with what is known of its mark."""

    definition: Definition
    trigger: Trigger
    turn: int = 0  # heap entries of an earlier turn are void
    mark: datetime | None = None
    held: str | None = None
    look_again: datetime | None = None  # for held and faulty ones, once a due() has said what time it is
    fault: str = ""

    @property
    def schedule(self) -> Schedule:
        return self.definition.schedule


class CodeStore:
    """A :class:`~celery_parrot.protocols.ScheduleStore` of definitions in this process.

    A definition that is broken, or whose trigger raises, is kept and listed with its reason; all others run.

    :param on_broken: told once for each new reason, as it is found.
    """

    name = "code"

    def __init__(self, definitions: Iterable[Definition] = (), *, on_broken: OnBroken | None = None) -> None:
        self._on_broken = on_broken
        self._items: dict[str, _Item] = {}
        self._broken: dict[str, tuple[Schedule, str]] = {}
        self._heaps: dict[str, list[tuple[datetime, int, str]]] = {}
        self._unknown: dict[str, None] = {}  # ids whose mark is to be asked for, in order
        self._resting: dict[str, None] = {}  # ids of held and faulty items
        self._turns = 0
        for definition in definitions:
            self.put(definition)

    # -- definitions --

    def put(self, definition: Definition) -> None:
        """Add a definition, or replace the one of the same id. Its mark is asked for."""
        self.remove(definition.schedule_id)
        if definition.trigger is None:
            self._mark_broken(definition.schedule, definition.broken or "has no trigger")
            return
        self._items[definition.schedule_id] = _Item(definition, definition.trigger)
        self._unknown[definition.schedule_id] = None

    def remove(self, schedule_id: str) -> None:
        """Forget a definition. Its heap entry becomes void."""
        self._items.pop(schedule_id, None)
        self._broken.pop(schedule_id, None)
        self._unknown.pop(schedule_id, None)
        self._resting.pop(schedule_id, None)

    @property
    def schedules(self) -> Sequence[Schedule]:
        """Every schedule that is here, broken ones included, by name."""
        found = [item.schedule for item in self._items.values()]
        found += [schedule for id_, (schedule, _) in self._broken.items() if id_ not in self._items]
        return sorted(found, key=lambda schedule: schedule.name)

    @property
    def broken(self) -> Mapping[str, str]:
        """Why each broken schedule cannot run, by id."""
        return {id_: reason for id_, (_, reason) in self._broken.items()}

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        """See the protocol. A broken definition has no trigger and is not handed out; its fires stay pending."""
        found: dict[str, Due] = {}
        for id_ in schedule_ids:
            item = self._items.get(id_)
            if item is not None:
                mark = item.mark or item.definition.initial or datetime.min.replace(tzinfo=UTC)
                found[id_] = Due(item.schedule, item.trigger, mark, item.held)
        return found

    # -- what is due --

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """See the protocol. Costs by what is due: the heaps are looked at no deeper than ``before``."""
        self._wake_resting(before)
        return self._take(before, [self._heaps[kind] for kind in sorted(set(kinds)) if kind in self._heaps], limit)

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """See the protocol."""
        ours = set(kinds)
        return self._take(before, [heap for kind, heap in sorted(self._heaps.items()) if kind not in ours], limit)

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """See the protocol."""
        tops = [self._top(self._heaps[kind]) for kind in set(kinds) if kind in self._heaps]
        return min((top[0] for top in tops if top is not None), default=None)

    def _take(self, before: datetime, heaps: Sequence[list[tuple[datetime, int, str]]], limit: int) -> list[Due]:
        found: list[Due] = []
        taken: list[tuple[list[tuple[datetime, int, str]], tuple[datetime, int, str]]] = []
        while len(found) < limit:
            tops = [(top, heap) for heap in heaps if (top := self._top(heap)) is not None]
            top, heap = min(tops, key=lambda pair: pair[0], default=(None, []))
            if top is None or top[0] > before:
                break
            taken.append((heap, heapq.heappop(heap)))
            item = self._items[top[2]]
            assert item.mark is not None
            found.append(Due(item.schedule, item.trigger, item.mark, item.held))
        # They stay due until a new mark is learned.
        for heap, entry in taken:
            heapq.heappush(heap, entry)
        return found

    def _top(self, heap: list[tuple[datetime, int, str]]) -> tuple[datetime, int, str] | None:
        """The first entry that is not void."""
        while heap:
            item = self._items.get(heap[0][2])
            if item is not None and item.turn == heap[0][1]:
                return heap[0]
            heapq.heappop(heap)
        return None

    def _wake_resting(self, before: datetime) -> None:
        """Give held and faulty items another chance when their time has come."""
        for id_ in list(self._resting):
            item = self._items[id_]
            if item.look_again is None:
                item.look_again = before + (HELD_ASKED_AGAIN if item.held is not None else FAULT_TRIED_AGAIN)
            elif before >= item.look_again:
                item.look_again = None
                if item.held is not None:
                    self._unknown[id_] = None
                    del self._resting[id_]
                else:
                    self._place(item)

    # -- marks --

    def registrations(self) -> Sequence[Registration]:
        """See the protocol. Disabled ones are registered too: enabling is an edit of *when* and moves the mark."""
        return [_registration(self._items[id_]) for id_ in self._unknown]

    def learn(self, marks: Iterable[Mark]) -> None:
        """See the protocol."""
        for mark in marks:
            item = self._items.get(mark.schedule_id)
            if item is None:
                continue
            self._unknown.pop(mark.schedule_id, None)
            item.mark, item.held = mark.last_due, mark.held
            self._place(item)

    def forget_marks(self) -> None:
        """See the protocol."""
        for id_, item in self._items.items():
            item.turn = self._next_turn()
            self._unknown[id_] = None
            self._resting.pop(id_, None)

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        """See the protocol."""
        known = [item for item in self._items.values() if item.mark is not None]
        marks = [
            Mark(schedule_id=item.definition.schedule_id, last_due=item.mark, held=item.held)
            for item in known
            if item.mark is not None
        ]
        return [_registration(item) for item in known], marks

    def _place(self, item: _Item) -> None:
        """Put the item where its next sending instant belongs; out of the way if it has none."""
        id_ = item.definition.schedule_id
        item.turn = self._next_turn()
        self._resting.pop(id_, None)
        if item.mark is None or not item.schedule.enabled:
            return
        if item.held is not None:
            item.look_again = None
            self._resting[id_] = None
            return
        try:
            at = self._next_sending(item, item.mark)
        except Exception as exc:  # a foreign schedule object is code of the user's
            self._fault(item, f"{type(exc).__name__}: {exc}")
            return
        if item.fault:
            item.fault = ""
            self._broken.pop(id_, None)
        if at is not None:
            heapq.heappush(self._heaps.setdefault(item.schedule.kind, []), (at, item.turn, id_))

    def _next_sending(self, item: _Item, mark: datetime) -> datetime | None:
        if item.definition.anchored is not None:
            item.trigger = item.definition.anchored(mark)
        return next_sending(item.schedule, item.trigger, mark)

    def _fault(self, item: _Item, reason: str) -> None:
        item.look_again = None
        self._resting[item.definition.schedule_id] = None
        if item.fault != reason:
            item.fault = reason
            self._mark_broken(item.schedule, reason)

    def _mark_broken(self, schedule: Schedule, reason: str) -> None:
        self._broken[schedule.schedule_id] = (schedule, reason)
        if self._on_broken is not None:
            self._on_broken(schedule, reason)

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns


def _registration(item: _Item) -> Registration:
    definition = item.definition
    initial = definition.initial if item.mark is None else item.mark
    return Registration(schedule_id=definition.schedule_id, when=definition.when, initial=initial)
