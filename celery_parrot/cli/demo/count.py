"""The count at the end, from three witnesses that know nothing of each other.

* *due*: the triggers, asked again for every due time of the window;
* *sent*, *succeeded*: the history that beats and workers wrote;
* *executed*: the journal that the task bodies wrote (:mod:`.journal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from celery_parrot.cli.demo import journal
from celery_parrot.cli.demo.examples import Example, fails_by_design
from celery_parrot.model.fire import FireKey, FireRecord, Namespace, Status

_NEVER_SENT = frozenset({Status.PENDING, Status.WAITING, Status.MISSED, Status.SKIPPED})


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time that is counted: ``opened`` < due ≤ ``closed``, by the coordinator's clock."""

    opened: datetime
    closed: datetime

    def holds(self, due_at: datetime) -> bool:
        return self.opened < due_at <= self.closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """:ivar failing_due: due times of the schedule that fails at times; it is not part of the other numbers, except
        for ``duplicates`` and ``missed``.
    :ivar problems: what does not agree, one sentence each.
    """

    due: int
    sent: int
    succeeded: int
    duplicates: int
    missed: int
    failing_due: int = 0
    failing_failed: int = 0
    problems: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every due time was sent, ran once and ended as it should."""
        return self.due == self.sent == self.succeeded and not (self.duplicates or self.missed or self.problems)

    def line(self) -> str:
        return (
            f"due={self.due} sent={self.sent} succeeded={self.succeeded} "
            f"duplicates={self.duplicates} missed={self.missed}"
        )

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees}


def due_in(example: Example, window: Window) -> list[FireKey]:
    """Every due time of one schedule in the window."""
    trigger, found, at = example.trigger(), [], window.opened
    while (due_at := trigger.next_after(at)) is not None and due_at <= window.closed:
        found.append(FireKey(example.name, due_at))
        at = due_at
    return found


def count(
    examples: Sequence[Example],
    window: Window,
    records: Iterable[FireRecord],
    lines: Sequence[journal.Line],
    namespace: Namespace,
) -> Count:
    """Hold the three against each other."""
    history = {record.fire_id: record for record in records if window.holds(record.due_at) and record.count == 1}
    failing = {example.name for example in examples if example.on_purpose}
    due = {namespace.fire_id(key): key for example in examples for key in due_in(example, window)}
    sent = {fire_id for fire_id, record in history.items() if record.status not in _NEVER_SENT}
    succeeded = {fire_id for fire_id, record in history.items() if record.status is Status.SUCCESS}
    apart = {fire_id for fire_id, record in history.items() if record.key.schedule_id in failing}
    apart |= {fire_id for fire_id, key in due.items() if key.schedule_id in failing}
    twice = journal.executed_twice(lines)
    return Count(
        due=len(due.keys() - apart),
        sent=len(sent - apart),
        succeeded=len(succeeded - apart),
        duplicates=len(twice),
        missed=len(due.keys() - sent),
        failing_due=len(due.keys() & apart),
        failing_failed=sum(history[fire_id].status is Status.ERROR for fire_id in apart & history.keys()),
        problems=tuple(_problems(due, history, sent, lines, failing)),
    )


def _problems(
    due: dict[str, FireKey],
    history: dict[str, FireRecord],
    sent: set[str],
    lines: Sequence[journal.Line],
    failing: set[str],
) -> Iterable[str]:
    done, failed = journal.finished(lines), journal.failed(lines)
    for fire_id in sent - due.keys():
        yield f"{_name(history[fire_id].key)} was sent and was not due"
    for fire_id, key in due.items():
        record = history.get(fire_id)
        by_design = key.schedule_id in failing and fails_by_design(key.due_at)
        status, ran = (Status.ERROR, failed) if by_design else (Status.SUCCESS, done)
        if record is None:
            yield f"{_name(key)} was due and has no history"
        elif record.status is not status:
            because = f" ({record.reason or record.error})" if record.reason or record.error else ""
            yield f"{_name(key)} ended as {record.status}{because}, not as {status}"
        elif fire_id not in ran:
            yield f"{_name(key)} is recorded as {record.status}, and no task says it ran"
    for fire_id in journal.executed_twice(lines):
        yield f"{_name(due[fire_id]) if fire_id in due else fire_id} was executed twice"


def _name(key: FireKey) -> str:
    return f"{key.schedule_id} at {key.due_at:%H:%M:%S}"
