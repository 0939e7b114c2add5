"""One name, one schedule: where two stores have the same, the first of code, db, redis has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from celery_parrot.clock import Clock
from celery_parrot.errors import Unreachable
from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import next_sending
from celery_parrot.protocols import Due, Inspecting, Mark, Registration, ScheduleStore, Stored
from celery_parrot.stores.memory import CodeStore

Taken = Callable[[Collection[str]], Collection[str]]
"""Which of these names and ids a store that comes first has."""

_AHEAD: Final = timedelta(seconds=3)
_AHEAD_LIMIT: Final = 1000
_KNOWN_FOR: Final = 60.0
_KNOWN_MOST: Final = 20_000


class Outranked(ScheduleStore):
    """A store whose schedules give way to those of the same name or id in the stores that come first.

    What gives way is reported once, stays where it is and never fires from here: names are unique, and nothing may
    fire twice under one id. The client refuses such a name; this is for rows that another program wrote.

    :param code: the schedules of this process's code. :param taken: what else comes first.
    :param on_clash: told once for each schedule, with the reason.
    """

    def __init__(
        self, store: ScheduleStore, code: CodeStore, taken: Taken, on_clash: Callable[[Schedule, str], None]
    ) -> None:
        self.name = store.name
        self._store, self._code, self._taken, self._on_clash = store, code, taken, on_clash
        self._reported: set[str] = set()
        self._blocked_at: datetime | None = None

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        wanted = tuple(kinds)
        found = self._store.due(before, wanted, limit)
        kept = self._kept(found)
        if len(kept) < len(found) == limit:  # those that give way stay due: they must not crowd out the rest
            kept = self._kept(self._store.due(before, wanted, 2 * limit))[:limit]
        self._blocked_at = before if len(kept) < len(found) else None
        return kept

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        return self._kept(self._store.due_elsewhere(before, kinds, limit))

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        wanted = tuple(kinds)
        at = self._store.next_due(wanted)
        if at is None or self._blocked_at is None or at > self._blocked_at:
            return at
        # The earliest may be one that gives way, which would have the beat look again and again.
        ahead = self._kept(self._store.due(self._blocked_at + _AHEAD, wanted, _AHEAD_LIMIT))
        instants = (next_sending(due.schedule, due.trigger, due.mark) for due in ahead)
        return min((instant for instant in instants if instant is not None), default=None)

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        return self._store.definitions([id_ for id_ in schedule_ids if not self._in_code([id_])])

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        """Of a store that does not show what it has, nothing."""
        store = self._store
        return store.get(names_or_ids) if isinstance(store, Inspecting) else [None] * len(names_or_ids)

    def registrations(self) -> Sequence[Registration]:
        return [one for one in self._store.registrations() if not self._in_code([one.schedule_id])]

    def learn(self, marks: Iterable[Mark]) -> None:
        self._store.learn([mark for mark in marks if not self._in_code([mark.schedule_id])])

    def forget_marks(self) -> None:
        self._store.forget_marks()

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        registrations, marks = self._store.remembered()
        return (
            [one for one in registrations if not self._in_code([one.schedule_id])],
            [mark for mark in marks if not self._in_code([mark.schedule_id])],
        )

    def _kept(self, found: Sequence[Due]) -> Sequence[Due]:
        if not found:
            return found
        texts = {text for due in found for text in (due.schedule.name, due.schedule.schedule_id)}
        in_code = self._in_code(texts)
        taken = self._taken(texts - in_code)
        kept: list[Due] = []
        for due in found:
            schedule = due.schedule
            own = {schedule.name, schedule.schedule_id}
            if not (own & in_code or not own.isdisjoint(taken)):
                kept.append(due)
            elif schedule.schedule_id not in self._reported:
                self._reported.add(schedule.schedule_id)
                where = "the code" if own & in_code else "the database"
                self._on_clash(
                    schedule, f"a schedule of that name is in {where}, which comes first; rename or delete this one"
                )
        return kept

    def _in_code(self, texts: Collection[str]) -> set[str]:
        return {*self._code.definitions(list(texts)), *(self._code.broken.keys() & set(texts))}


def none_taken(texts: Collection[str]) -> Collection[str]:
    """For the store right after code."""
    return ()


class TakenIn:
    """The names and ids that another store has, remembered for a minute each.

    While that store cannot be asked, what is not known counts as free: the stores go on without each other.
    """

    def __init__(self, get: Callable[[Sequence[str]], Sequence[Stored | None]], clock: Clock) -> None:
        self._get, self._clock = get, clock
        self._known: dict[str, tuple[float, bool]] = {}

    def __call__(self, texts: Collection[str]) -> Collection[str]:
        now = self._clock.monotonic()
        asked = [text for text in texts if self._known.get(text, (now, False))[0] <= now]
        if asked:
            try:
                found = self._get(asked)
            except Unreachable:
                found = None
            if found is not None:
                if len(self._known) > _KNOWN_MOST:
                    self._known.clear()
                self._known.update({
                    text: (now + _KNOWN_FOR, stored is not None) for text, stored in zip(asked, found, strict=True)
                })  # fmt: skip
        return {text for text in texts if self._known.get(text, (0.0, False))[1]}
