"""Changing definitions: each change is worked out here from what was read, and made by a script if that still holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from celery_parrot.clock import new_id
from celery_parrot.model.fire import Status
from celery_parrot.model.plan import NotFired
from celery_parrot.model.schedule import Schedule, as_uuid
from celery_parrot.planning import PAUSED, SUPERSEDED, just_before, one_shot, trigger_of
from celery_parrot.protocols.editing import Change, Written
from celery_parrot.stores.redis.definitions import (
    STORE,
    Definition,
    DefinitionCache,
    encode,
    fault_of,
    fingerprint,
)
from celery_parrot.stores.redis.marks import first_mark, iso, placed, score, undecided, when_of
from celery_parrot.stores.redis.rows import Row, row_in
from celery_parrot.stores.redis.server import CHUNK, Scripts

T = TypeVar("T")

_TRIES = 50
_BROKEN_TRIED_AGAIN = timedelta(seconds=60)
_WRITTEN = {b"done": Written.DONE, b"gone": Written.GONE, b"exists": Written.EXISTS, b"conflict": Written.CONFLICT}


@dataclass(slots=True)
class _Edit:
    """What a script is to do with one row."""

    item: dict[str, Any]
    version: int


class Editor:
    """:param changed: told after each call that may have changed something."""

    def __init__(self, scripts: Scripts, cache: DefinitionCache, changed: Callable[[], None]) -> None:
        self._scripts, self._cache, self._changed = scripts, cache, changed

    def look(self, schedule_ids: Sequence[str]) -> tuple[datetime | None, list[Row | None]]:
        """The rows of these ids, and when they were read."""
        now, replies = self._scripts.each("look", "texts", list(schedule_ids))
        return now, [row_in(reply, self._scripts.server, self._cache) for reply in replies]

    # --- definitions ---

    def insert(self, schedules: Sequence[Schedule]) -> list[Written]:
        """See the protocol. A ``schedule_id`` that is no UUID is replaced by a new one."""
        written: list[Written] = []
        for first in range(0, len(schedules), CHUNK):
            now = self._scripts.now()
            items = [_new(schedule, now) for schedule in schedules[first : first + CHUNK]]
            _, replies = self._scripts.each("insert", "items", items)
            written += [_WRITTEN[reply] for reply in replies]
        self._changed()
        return written

    def replace(self, changes: Sequence[Change]) -> list[tuple[Written, int]]:
        """See the protocol."""

        def work_out(change: Change, row: Row, now: datetime) -> _Edit | tuple[Written, int]:
            if change.version is not None and change.version != row.version:
                return Written.CONFLICT, row.version
            return _replacement(change.schedule, row, now) or (Written.DONE, row.version)

        return self._edit(changes, lambda change: change.schedule.schedule_id, work_out)

    def delete(self, schedule_ids: Sequence[str], version: int | None) -> list[Written]:
        """See the protocol."""
        return self._plainly("delete", schedule_ids, version)

    # --- pause and resume ---

    def hold(self, schedule_ids: Sequence[str], by: str, note: str, version: int | None) -> list[Written]:
        """See the protocol. What a person paused is not taken over by failures."""
        return self._plainly("hold", schedule_ids, version, by=by, note=note)

    def release(self, schedule_ids: Sequence[str], version: int | None) -> list[Written]:
        """See the protocol. Also enables a definition that is disabled by ``enabled`` alone."""

        def work_out(_: str, row: Row, now: datetime) -> _Edit | tuple[Written, int]:
            if version is not None and version != row.version:
                return Written.CONFLICT, row.version
            return _resumption(row, now)

        return [written for written, _ in self._edit(schedule_ids, str, work_out)]

    def _plainly(self, name: str, ids: Sequence[str], version: int | None, **payload: Any) -> list[Written]:
        if version is not None:
            payload["version"] = version
        _, replies = self._scripts.each(name, "ids", list(ids), **payload)
        self._changed()
        return [_WRITTEN[reply] for reply in replies]

    def _edit(
        self,
        asked: Sequence[T],
        id_of: Callable[[T], str],
        work_out: Callable[[T, Row, datetime], _Edit | tuple[Written, int]],
    ) -> list[tuple[Written, int]]:
        """Read, work out, write; again for those that somebody else changed in between."""
        done: dict[int, tuple[Written, int]] = {}
        for _ in range(_TRIES):
            open_ = [number for number in range(len(asked)) if number not in done]
            if not open_:
                break
            now, rows = self.look([id_of(asked[number]) for number in open_])
            assert now is not None
            edits: dict[int, _Edit] = {}
            for number, row in zip(open_, rows, strict=True):
                made = (Written.GONE, 0) if row is None else work_out(asked[number], row, now)
                if isinstance(made, _Edit):
                    edits[number] = made
                else:
                    done[number] = made
            _, replies = self._scripts.each("edit", "items", [edit.item for edit in edits.values()])
            for (number, edit), reply in zip(edits.items(), replies, strict=True):
                if reply in _WRITTEN:
                    version = edit.version if reply == b"done" else edit.item["version_before"]
                    done[number] = _WRITTEN[reply], version
        self._changed()
        return [done.get(number, (Written.CONFLICT, 0)) for number in range(len(asked))]


# --- working it out ---


def _new(schedule: Schedule, now: datetime) -> dict[str, Any]:
    schedule_id = as_uuid(schedule.schedule_id) or as_uuid(new_id()) or ""
    created = now if schedule.created_at is None else min(schedule.created_at, now)
    made = replace(schedule, schedule_id=schedule_id, version=1, created_at=created, store=STORE)
    trigger = _definition(made).trigger
    mark = now if trigger is None else first_mark(trigger, now)
    fields = {"id": schedule_id, "name": made.name, "kind": made.kind, "text": encode(made), "mark": iso(mark)}
    return fields | _placement(made, now, mark)


def _definition(schedule: Schedule) -> Definition:
    try:
        return Definition(schedule, trigger_of(schedule))
    except Exception as exc:  # stored all the same, and shown as broken
        return Definition(schedule, None, fault_of(exc))


def _placement(schedule: Schedule, now: datetime, mark: datetime) -> dict[str, Any]:
    """Where it belongs: ``at``, ``max_fires`` and, if it cannot run, ``broken``."""
    item: dict[str, Any] = {"broken": "", "at": ""}
    if schedule.policy.max_fires is not None:
        item["max_fires"] = schedule.policy.max_fires
    definition = _definition(schedule)
    fault = definition.fault
    if definition.trigger is not None:
        try:
            item["at"] = score(placed(schedule, definition.trigger, mark))
        except Exception as exc:  # what a trigger may raise
            fault = fault_of(exc)
    if fault:
        item |= {"broken": fault, "at": score(now + _BROKEN_TRIED_AGAIN)}
    return item


def _replacement(schedule: Schedule, row: Row, now: datetime) -> _Edit | None:
    """None if nothing changes."""
    old = row.definition.schedule
    created = schedule.created_at or now if old is None or old.created_at is None else old.created_at
    version = row.version + 1
    new = replace(schedule, schedule_id=row.schedule_id, version=version, created_at=created, store=STORE)
    if old is not None and new == replace(old, version=version):
        return None
    if old is not None and when_of(old) == when_of(new):
        return _edit(row, new, now, mark=row.mark, text=True)
    ranges = _left_over(row, now, Status.MISSED, SUPERSEDED)
    mark = max(row.mark, now)
    trigger = _definition(new).trigger
    instant = None if trigger is None else one_shot(trigger)
    enabling = old is not None and new.enabled and not old.enabled
    if instant is not None and instant <= mark and not enabling and not row.fires and not row.run_state.auto_count:
        # Nothing was decided yet: as if it had been created with this instant.
        mark, ranges = just_before(instant), ()
    return _edit(row, new, now, mark=mark, text=True, ranges=ranges)


def _resumption(row: Row, now: datetime) -> _Edit:
    schedule = row.definition.schedule
    enabling = schedule is not None and not schedule.enabled
    if row.held is None and not enabling:
        return _edit(row, schedule, now, mark=row.mark, release=True)
    ranges = _left_over(row, now, Status.SKIPPED, PAUSED)
    if schedule is not None and enabling:
        schedule = replace(schedule, enabled=True, version=row.version + 1)
    return _edit(row, schedule, now, mark=max(row.mark, now), text=enabling, ranges=ranges, release=True)


def _left_over(row: Row, now: datetime, status: Status, reason: str) -> tuple[NotFired, ...]:
    """What was undecided under the definition as it was. What came while it was disabled is nothing at all."""
    schedule, trigger = row.definition.schedule, row.definition.trigger
    if schedule is None or trigger is None or not schedule.enabled:
        return ()
    if row.held is not None:
        status, reason = Status.SKIPPED, PAUSED
    try:
        return undecided(trigger, row.mark, now, status, reason)
    except Exception:  # it never could be computed, so nothing of it was ever due
        return ()


def _edit(
    row: Row,
    schedule: Schedule | None,
    now: datetime,
    *,
    mark: datetime,
    text: bool = False,
    ranges: Sequence[NotFired] = (),
    release: bool = False,
) -> _Edit:
    item: dict[str, Any] = {
        "id": row.schedule_id,
        "sha": fingerprint(row.raw),
        "mark": row.mark_text,
        "held": row.held or "",
        "version_before": row.version,
        "name": row.name,
        "kind": row.kind,
        "new_mark": iso(mark),
        "release": release,
        "ranges": [_range(run) for run in ranges],
    }
    if schedule is None:  # it cannot be read, but it can be resumed
        item |= {"broken": row.definition.fault, "at": score(now + _BROKEN_TRIED_AGAIN)}
    else:
        item |= {"name": schedule.name, "kind": schedule.kind, **_placement(schedule, now, mark)}
    if text and schedule is not None:
        item |= {"text": encode(schedule), "version": schedule.version}
    return _Edit(item, row.version if schedule is None else schedule.version)


def _range(run: NotFired) -> dict[str, Any]:
    return {
        "status": run.status.value,
        "reason": run.reason,
        "first": iso(run.first),
        "last": iso(run.last),
        "count": run.count,
    }
