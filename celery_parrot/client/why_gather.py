"""From a question to the facts: at most about ten round trips, most of them only where the story needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from celery_parrot.client.catalogue import CODE, Catalogue
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.view import view_of
from celery_parrot.client.why_facts import MICROSECOND, Facts, History, Holder, zone_of
from celery_parrot.client.why_holders import Holders, ask, held_by, holder_in
from celery_parrot.client.why_when import Moment, changed_by_clock, moment_of
from celery_parrot.errors import FireNotFound, ParrotError, ScheduleNotFound
from celery_parrot.model.fire import FireKey, FireRecord, Status
from celery_parrot.model.schedule import TASK_KIND, Kind
from celery_parrot.model.state import RunState
from celery_parrot.planning import trigger_of
from celery_parrot.protocols import OVERLAP, Limits, State, Stored
from celery_parrot.protocols.holding import Held, Holding
from celery_parrot.triggers import Trigger

_AROUND: Final = 50
_COUNTED_MOST: Final = 1000
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What a story is about."""

    due_at: datetime
    is_due: bool
    record: FireRecord | None = None
    more: int = 0
    records: Sequence[FireRecord] = ()
    latest: bool = False


class Gatherer:
    """:param viewer: the zone of whoever asks. ``kinds``: the declared kinds of this process's settings."""

    def __init__(
        self, catalogue: Catalogue, coordination: Coordination, kinds: Mapping[str, Kind], viewer: tzinfo
    ) -> None:
        self._catalogue, self._agreed, self._viewer = catalogue, coordination, viewer
        self._kinds = {TASK_KIND: Kind(name=TASK_KIND, declared=False), **kinds}
        self._coordinator = coordination.coordinator

    def facts(self, name: str, at: datetime | str | None, fire: str | None) -> Facts:
        """:raises InvalidSchedule: for an ``at`` that is no instant. :raises FireNotFound:
        :raises ScheduleNotFound:
        """
        if at is not None and fire is not None:
            raise ParrotError("give either a time or a fire, not both")
        store, stored, deleted = self._located(name)
        beats, now = ask(self._agreed, self._agreed.beats)
        view, trigger = view_of(stored, store), self._trigger(store, stored, now)
        moment = None if at is None else moment_of(at, now, zone_of(view, trigger))
        if fire is not None:
            subject = self._by_id(store, stored, trigger, fire)
        elif moment is not None:
            subject = self._at(store, stored, trigger, moment)
        else:
            subject = self._latest(store, stored, trigger, now)
        record = subject.record
        key = FireKey(stored.schedule_id, subject.due_at) if record is None else record.key
        (claim,) = self._coordinator.claims([key])
        waiting = record is not None and record.status is Status.WAITING
        limits = tuple(self._coordinator.limits()) if waiting and isinstance(self._coordinator, Limits) else ()
        holders = Holders(self._catalogue, self._agreed, self._kinds, limits)
        previous = None if trigger is None else trigger.latest_at(subject.due_at - MICROSECOND)
        return Facts(
            view=view,
            definition=stored.schedule,
            trigger=trigger,
            now=now,
            due_at=subject.due_at,
            is_due=subject.is_due,
            viewer=self._viewer,
            kinds=self._kinds,
            timing=self._coordinator.timing,
            moment=moment,
            more=subject.more,
            latest=subject.latest,
            deleted=deleted,
            record=record,
            claim=claim,
            holder=None if record is None else holders.find(*held_by(record), record) or self._ahead(store, record),
            into=self._into(store, stored, record),
            before=None if previous is None else _record_of(subject.records, previous),
            limits=limits,
            history=History() if record is not None else self._reach(store, stored, subject.due_at),
            beats=beats,
            held=self._held(store, stored),
        )

    def _located(self, name: str) -> tuple[str, Stored, bool]:
        """``(store, schedule, deleted)``: of a deleted one by its id, as long as its history is kept."""
        try:
            return *self._catalogue.locate(name), False
        except ScheduleNotFound:
            for store, one in self._catalogue.all.items():
                if records := one.fires(name, limit=1):
                    key, called = records[0].key, records[0].name
                    gone = Stored(
                        schedule_id=key.schedule_id,
                        name=called,
                        schedule=None,
                        run_state=RunState(),
                        state=State.COMPLETED,
                    )
                    return store, gone, True
            raise

    # --- what it is about ---

    def _by_id(self, store: str, stored: Stored, trigger: Trigger | None, fire: str) -> _Subject:
        wanted = fire.partition(":")[0]  # a task id of a later attempt has its number behind it
        records = self._records(store, stored, limit=self._coordinator.timing.history_limit)
        for record in records:
            if record.fire_id == wanted:
                due_at, latest = record.due_at, record is records[0]
                return _Subject(due_at, _names(trigger, due_at), record, records=records, latest=latest)
        raise FireNotFound(stored.name, fire)

    def _at(self, store: str, stored: Stored, trigger: Trigger | None, moment: Moment) -> _Subject:
        records = self._records(store, stored, before=moment.end)
        due = _due_within(trigger, moment)
        if not due and trigger is not None and (changed := changed_by_clock(trigger, moment)) is not None:
            due = [changed.at] if changed.moved else []  # the instant that was meant
        if due:
            return _Subject(due[0], True, _record_of(records, due[0]), len(due) - 1, records)
        within = [record for record in records if moment.covers(record.due_at)]
        if within:  # by hand, or by a definition that it had then
            return _Subject(within[-1].due_at, False, within[-1], len(within) - 1, records)
        if trigger is None and (covering := _record_of(records, moment.first)) is not None:
            return _Subject(moment.first, False, covering, records=records)
        return _Subject(moment.first, False, records=records)

    def _latest(self, store: str, stored: Stored, trigger: Trigger | None, now: datetime) -> _Subject:
        records = self._records(store, stored)
        if records:
            due_at = records[0].until or records[0].due_at
            return _Subject(due_at, _names(trigger, due_at), records[0], records=records, latest=True)
        mark = stored.run_state.last_due
        coming = None if trigger is None else trigger.next_after(mark or now)
        if coming is None and trigger is not None:
            coming = trigger.latest_at(now)
        return _Subject(coming or now, coming is not None)

    # --- reading ---

    def _records(
        self, store: str, stored: Stored, *, limit: int = _AROUND, before: datetime | None = None
    ) -> Sequence[FireRecord]:
        """Newest first. Of a row what the coordinator has of it comes first: it knows it sooner, and knows more."""
        found = list(self._catalogue.all[store].fires(stored.schedule_id, limit=limit, before=before))
        if store == CODE:
            return found
        own = ask(self._agreed, lambda: self._coordinator.fires(stored.schedule_id, limit=limit, before=before))
        merged = {record.key: record for record in found}
        for record in own:
            kept = merged.get(record.key)
            if kept is None or not _is_behind(record, kept):
                merged[record.key] = record
        return sorted(merged.values(), key=lambda record: (record.due_at, record.key.nonce), reverse=True)[:limit]

    def _ahead(self, store: str, record: FireRecord) -> Holder | None:
        """Of one skipped for overlap, the fire of its schedule that was still in flight."""
        if record.reason != OVERLAP or record.finished_at is None:
            return None
        earlier = self._catalogue.all[store].fires(record.key.schedule_id, limit=_AROUND, before=record.due_at)
        for one in earlier:
            if one.committed_at is not None and (one.finished_at is None or one.finished_at >= record.finished_at):
                return holder_in(one)
        return None

    def _into(self, store: str, stored: Stored, record: FireRecord | None) -> FireRecord | None:
        """The fire of the same decision that a coalesced one gave way to."""
        if record is None or record.reason != "coalesced" or record.finished_at is None:
            return None
        last = record.until or record.due_at
        later = [
            one
            for one in self._records(store, stored, before=record.finished_at + MICROSECOND)
            if one.due_at > last and one.committed_at is not None and not one.key.nonce
        ]
        return later[-1] if later else None

    def _reach(self, store: str, stored: Stored, due_at: datetime) -> History:
        records = self._records(store, stored, limit=self._coordinator.timing.history_limit)
        if not records:
            return History()
        full = len(records) >= self._coordinator.timing.history_limit
        return History(oldest=records[-1].due_at, newest=records[0].until or records[0].due_at, full=full)

    def _held(self, store: str, stored: Stored) -> Held | None:
        if store != CODE or stored.held is None or not isinstance(self._coordinator, Holding):
            return None
        return self._coordinator.holds([stored.schedule_id]).get(stored.schedule_id)

    def _trigger(self, store: str, stored: Stored, now: datetime) -> Trigger | None:
        """None for one that cannot be computed."""
        if stored.schedule is None:
            return None
        try:
            trigger = self._catalogue.code.trigger(stored.schedule_id) if store == CODE else trigger_of(stored.schedule)
            trigger.latest_at(now)
            trigger.next_after(now)
        except Exception:  # a foreign schedule object is code of the user's; the store says what is wrong with it
            return None
        return trigger


def _names(trigger: Trigger | None, due_at: datetime) -> bool:
    return trigger is not None and trigger.latest_at(due_at) == due_at


def _due_within(trigger: Trigger | None, moment: Moment) -> list[datetime]:
    """The due times that ``moment`` covers; of very many not all."""
    found: list[datetime] = []
    if trigger is None or (moment.absent and moment.size <= _MINUTE):
        return found
    for start in moment.starts:
        due_at = trigger.next_after(start - MICROSECOND)
        while due_at is not None and due_at < start + moment.size and len(found) < _COUNTED_MOST:
            found.append(due_at)
            due_at = trigger.next_after(due_at)
    return found


def _record_of(records: Sequence[FireRecord], due_at: datetime) -> FireRecord | None:
    """The entry of a due time: its own, else the range that it is in."""
    for record in records:
        if record.due_at == due_at and not record.key.nonce:
            return record
    for record in records:
        if record.until is not None and record.due_at <= due_at <= record.until:
            return record
    return None


def _is_behind(own: FireRecord, row: FireRecord) -> bool:
    """Whether the row has an outcome that a coordinator which forgot does not know of."""
    return row.status.terminal and not own.status.terminal and own.attempt <= row.attempt
