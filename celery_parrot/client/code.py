"""The schedules of this process's code, with the verbs of an editable store as far as code can have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol, TypeVar

from celery_parrot.clock import Clock
from celery_parrot.errors import InvalidSchedule, MemoryLost, ParrotError
from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.model.plan import NotFired, Verdict
from celery_parrot.model.schedule import Schedule
from celery_parrot.model.state import RunState
from celery_parrot.planning import next_sending
from celery_parrot.protocols import Change, Coordinator, Due, Mark, Page, Registration, State, Stored, Written
from celery_parrot.protocols.holding import Held, Holding, Release
from celery_parrot.triggers import Trigger

T = TypeVar("T")

PAUSED: Final = "paused"
COUNTED_MOST: Final = 1_000_000
"""Due times of a pause that are counted; of a longer one the entry's count stays there, its end is right."""

_TRIES: Final = 5


class CodeSchedules(Protocol):
    """What is asked of the store of code schedules."""

    @property
    def schedules(self) -> Sequence[Schedule]: ...

    @property
    def broken(self) -> Mapping[str, str]: ...

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]: ...

    def registrations(self) -> Sequence[Registration]: ...

    def learn(self, marks: Sequence[Mark]) -> None: ...


class CodeDefinitions:
    """Implements the reading half of a ``DefinitionStore``, pause and resume. Definitions change in the code only.

    :param code: the schedules; called once, when they are first needed.
    :param coordinator: which has their state and history.
    """

    name = "code"

    def __init__(self, code: Callable[[], CodeSchedules], coordinator: Coordinator, clock: Clock) -> None:
        self._make, self._coordinator, self._clock = code, coordinator, clock
        self._made: CodeSchedules | None = None

    @property
    def _code(self) -> CodeSchedules:
        if self._made is None:
            self._made = self._make()
        return self._made

    # --- reading ---

    def names(self) -> list[str]:
        """Every name, without asking anybody."""
        return [schedule.name for schedule in self._code.schedules]

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        """See the protocol. A code schedule's id is its name."""
        by_name = {schedule.name: schedule for schedule in self._code.schedules}
        found = self._stored([by_name[name] for name in names_or_ids if name in by_name])
        return [found.get(name) for name in names_or_ids]

    def find(
        self,
        *,
        kind: str | None = None,
        state: State | None = None,
        text: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> Page:
        """See the protocol."""
        wanted = [
            one
            for one in self._code.schedules
            if one.name > after
            and (kind is None or one.kind == kind)
            and (not text or text.lower() in one.name.lower() or text.lower() in one.target.lower())
        ]
        # Their state is the coordinator's: all are asked for only where it decides.
        asked = wanted if state is not None else wanted[: limit + 1]
        stored = self._stored(asked)
        items = [stored[one.name] for one in asked if state is None or stored[one.name].state is state]
        page = tuple(items[:limit])
        return Page(items=page, after=page[-1].name if page and len(items) > limit else "")

    def names_with(self, text: str, limit: int) -> Sequence[str]:
        """See the protocol."""
        return [one.name for one in self._code.schedules if text.lower() in one.name.lower()][:limit]

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        """See the protocol."""
        return self._ask(lambda: self._coordinator.fires(schedule_id, limit=limit, before=before))

    def trigger(self, name: str) -> Trigger:
        """When it is due. Asks nobody. Raises InvalidSchedule if it is broken."""
        due = self._code.definitions([name]).get(name)
        if due is None:
            reason = self._code.broken.get(name, "it cannot be computed")
            raise InvalidSchedule("definition", name, f"is broken: {reason}")
        return due.trigger

    # --- writing ---

    def insert(self, schedules: Sequence[Schedule]) -> Sequence[Written]:
        """:raises ParrotError: always."""
        raise ParrotError("schedules of the code are changed in the code")

    def replace(self, changes: Sequence[Change]) -> Sequence[tuple[Written, int]]:
        """:raises ParrotError: always."""
        name = changes[0].schedule.name if changes else "it"
        raise ParrotError(f"{name!r} is defined in the code and changed there; it can be paused and resumed from here")

    def delete(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """:raises ParrotError: always."""
        raise ParrotError(f"{', '.join(schedule_ids)!r} is defined in the code and deleted there; pause it instead")

    def hold(self, schedule_ids: Sequence[str], by: str, note: str, version: int | None = None) -> Sequence[Written]:
        """See the protocol. Persists: every beat heeds it, and so do those that start later."""
        holding = self._holding()
        held = self._ask(lambda: holding.hold(schedule_ids, by, note))
        unknown = [id_ for id_, done in zip(schedule_ids, held, strict=True) if not done]
        if not unknown:
            return [Written.DONE] * len(schedule_ids)
        # No beat has registered it yet. What it would register is known here as well.
        wanted = [one for one in self._code.registrations() if one.schedule_id in unknown]
        if wanted:
            self._code.learn(list(self._ask(lambda: self._coordinator.register(wanted))))
            held = self._ask(lambda: holding.hold(schedule_ids, by, note))
        return [Written.DONE if done else Written.GONE for done in held]

    def release(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """See the protocol."""
        return [self._release(id_) for id_ in schedule_ids]

    # --- inside ---

    def _release(self, schedule_id: str) -> Written:
        holding = self._holding()
        for _ in range(_TRIES):
            held = self._ask(lambda: holding.holds([schedule_id])).get(schedule_id)
            if held is None or held.by is None:
                return Written.DONE
            now = self._coordinator.attach().now
            release = self._skipping(schedule_id, held, now)
            (verdict,) = self._ask(lambda release=release: holding.release([release]))  # type: ignore[misc]
            if verdict is not Verdict.MOVED:
                return Written.DONE
        raise ParrotError(f"{schedule_id!r} keeps changing; try again")

    def _skipping(self, schedule_id: str, held: Held, now: datetime) -> Release:
        self._code.learn([Mark(schedule_id=schedule_id, last_due=held.mark, held=held.by)])
        schedule = next(one for one in self._code.schedules if one.schedule_id == schedule_id)
        due = self._code.definitions([schedule_id]).get(schedule_id)
        return Release(
            schedule_id=schedule_id,
            name=schedule.name,
            kind=schedule.kind,
            expected_mark=held.mark,
            new_mark=max(now, held.mark),
            skipped=() if due is None or not schedule.enabled else _paused(due.trigger, held.mark, now),
        )

    def _holding(self) -> Holding:
        if not isinstance(self._coordinator, Holding):
            raise ParrotError("this coordinator cannot pause schedules of the code")
        return self._coordinator

    def _stored(self, schedules: Sequence[Schedule]) -> dict[str, Stored]:
        ids = [schedule.schedule_id for schedule in schedules]
        if not ids:
            return {}
        states = self._ask(lambda: self._coordinator.run_states(ids))
        held = [id_ for id_ in ids if id_ in states and states[id_].disabled_by is not None]
        notes: Mapping[str, Held] = {}
        if held and isinstance(self._coordinator, Holding):
            holding = self._coordinator
            notes = self._ask(lambda: holding.holds(held))
        self._code.learn([
            Mark(schedule_id=id_, last_due=state.last_due, held=state.disabled_by)
            for id_, state in states.items()
            if state.last_due is not None
        ])  # fmt: skip
        triggers, broken, now = self._code.definitions(ids), self._code.broken, self._clock.now()
        return {
            one.name: _stored(one, triggers.get(one.schedule_id), broken.get(one.schedule_id), states, notes, now)
            for one in schedules
        }

    def _ask(self, call: Callable[[], T]) -> T:
        """Once more if the coordinator forgot: what it knew is the beats' to put back."""
        try:
            return call()
        except MemoryLost:
            self._coordinator.attach()
            return call()


def _stored(
    schedule: Schedule,
    due: Due | None,
    reason: str | None,
    states: Mapping[str, RunState],
    notes: Mapping[str, Held],
    now: datetime,
) -> Stored:
    state = states.get(schedule.schedule_id, RunState())
    note = notes.get(schedule.schedule_id)
    next_run = None
    if due is None:
        reason = reason or "it cannot be computed"
    elif reason is None:
        waiting = state.disabled_by is not None or not schedule.enabled
        mark = state.last_due or now
        try:
            next_run = next_sending(schedule, due.trigger, max(mark, now) if waiting else mark)
        except Exception as exc:  # a foreign schedule object is code of the user's
            reason = f"{type(exc).__name__}: {exc}"
    most = schedule.policy.max_fires
    if most is not None and state.auto_count >= most:
        next_run = None
    return Stored(
        schedule_id=schedule.schedule_id,
        name=schedule.name,
        schedule=schedule,
        run_state=replace(state, next_run=next_run),
        state=_state_of(schedule, state, next_run, reason),
        held=state.disabled_by,
        note=None if note is None else note.note,
        broken_reason=reason,
    )


def _state_of(schedule: Schedule, state: RunState, next_run: datetime | None, reason: str | None) -> State:
    if reason is not None:
        return State.BROKEN
    if state.disabled_by is not None:
        return State.PAUSED if state.disabled_by == "person" else State.DISABLED
    if not schedule.enabled:
        return State.PAUSED
    return State.ACTIVE if next_run is not None else State.COMPLETED


def _paused(trigger: Trigger, mark: datetime, now: datetime) -> tuple[NotFired, ...]:
    """The due times in ``(mark, now]``, as one range."""
    first = trigger.next_after(mark)
    if first is None or first > now:
        return ()
    last, count = first, 1
    while count < COUNTED_MOST and (due_at := trigger.next_after(last)) is not None and due_at <= now:
        last, count = due_at, count + 1
    if count == COUNTED_MOST:
        last = trigger.latest_at(now) or last
    return (NotFired(Status.SKIPPED, PAUSED, first, last, count),)
