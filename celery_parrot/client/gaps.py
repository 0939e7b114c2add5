"""What a schedule's history says of its due times: which have fired, and how the entries of the others are split."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from celery_parrot.model.fire import FireKey, FireRecord
from celery_parrot.model.plan import NotFired
from celery_parrot.planning import around
from celery_parrot.protocols import DefinitionStore
from celery_parrot.protocols.demands import Split
from celery_parrot.triggers import Trigger

_PAGE: Final = 1000


def whole_history(store: DefinitionStore, schedule_id: str) -> list[FireRecord]:
    """Every entry that is kept, newest first."""
    found: dict[FireKey, FireRecord] = {}
    before: datetime | None = None
    while True:
        page = store.fires(schedule_id, limit=_PAGE, before=before)
        found.update({record.key: record for record in page})
        if len(page) < _PAGE:
            return sorted(found.values(), key=lambda record: record.key, reverse=True)
        # Several may share a due time, and a page may end between them.
        earliest = page[-1].due_at + timedelta(microseconds=1)
        before = earliest if earliest != before else page[-1].due_at


class Gaps:
    """:param records: the history, newest first.
    :param trigger: when the schedule is due.
    :param splits: the coordinator keeps the history and has to be told how to split it.
    """

    def __init__(self, records: Sequence[FireRecord], trigger: Trigger, *, splits: bool) -> None:
        self.records = records
        self._newest: tuple[datetime, Split] | None = None
        self._trigger = trigger
        self._fires: Mapping[FireKey, FireRecord] = {
            record.key: record for record in records if record.committed_at is not None
        }
        runs = [record for record in records if record.committed_at is None] if splits else []
        self._runs = [
            NotFired(one.status, one.reason, one.due_at, one.until or one.due_at, one.count) for one in reversed(runs)
        ]

    def has_fired(self, key: FireKey) -> bool:
        """Whether it is on its way, or has run. One that ended before any worker started it has not."""
        record = self._fires.get(key)
        return record is not None and (not record.status.terminal or record.started_at is not None)

    def attempt(self, key: FireKey) -> int:
        """The attempt that it would be now."""
        record = self._fires.get(key)
        return 1 if record is None else record.attempt + 1

    def split(self, due_at: datetime) -> Split | None:
        """The entry that covers it and what would be left of that, or None."""
        index = self._index(due_at)
        if index is None:
            return None
        whole = self._runs[index]
        # Counting may take a while.
        if self._newest is None or self._newest[0] != due_at or self._newest[1].whole != whole:
            before, after = around(self._trigger, whole, due_at)
            self._newest = due_at, Split(whole=whole, before=before, after=after)
        return self._newest[1]

    def filled(self, key: FireKey) -> None:
        """It is a fire of its own now."""
        index = None if key.nonce else self._index(key.due_at)
        if index is not None:
            split = self.split(key.due_at)
            assert split is not None
            self._runs[index : index + 1] = [part for part in (split.before, split.after) if part is not None]

    def _index(self, due_at: datetime) -> int | None:
        index = bisect_right(self._runs, due_at, key=lambda run: run.first) - 1
        return index if index >= 0 and due_at <= self._runs[index].last else None
