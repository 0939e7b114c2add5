"""The story of a fire: from its due time over its claim, its turn, its message and its worker to its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from celery_parrot.client.why_common import (
    beat_called,
    holder_called,
    holder_end,
    limit_called,
    named,
    queue_called,
    task_called,
)
from celery_parrot.client.why_facts import Facts
from celery_parrot.client.why_story import Step
from celery_parrot.client.why_words import Words, counted, line, sentence, span
from celery_parrot.model.fire import DEMANDED, FireRecord, Origin, Status
from celery_parrot.protocols import EXPIRED_WAITING, IN_FLIGHT, QUEUE_DEADLINE, SILENT, WORKER_LOST

_RELEASED: Final = "released by"
_UNSENDABLE: Final = "cannot be sent: "
UNREGISTERED: Final = "task not registered"

REASONS: Final = {
    "revoked": "It was revoked, by a person or a program; that does not count as a failure",
    "cancelled": "Its worker was shut down and did not wait for it",
    "time limit": "It ran into its hard time limit, and its process was killed",
    "rejected": "The task rejected its message",
    "invalid message": "The worker could not read its message and threw it away",
    "worker lost": "Its process died",
}
"""What a worker says of how it ended, beside the error."""


def steps_of(facts: Facts, record: FireRecord, words: Words) -> Iterator[Step]:
    """What happened to a committed fire, up to its start."""
    yield from _claimed(facts, record, words)
    yield from _waited(facts, record, words)
    if record.sent_at is not None:
        since = record.waited_until or record.committed_at
        yield Step(
            what="sent",
            at=record.sent_at,
            text=f"It was sent to {queue_called(facts)} {words.later(record.sent_at, since)}.",
        )
    yield from _attempts(facts, record, words)
    if record.started_at is not None:
        worker = record.worker or "a worker"
        since = record.sent_at if record.sent_at is not None and record.sent_at <= record.started_at else None
        text = f"Worker {worker} picked it up {words.later(record.started_at, since)}."
        yield Step(what="started", at=record.started_at, text=text)


def _claimed(facts: Facts, record: FireRecord, words: Words) -> Iterator[Step]:
    committed = record.committed_at
    if committed is None:
        return
    beat = beat_called(record.beat, facts.beats)
    if record.origin in DEMANDED:
        how = "run-now" if record.origin is Origin.RUN_NOW else "backfill"
        own = ", with arguments of its own," if facts.claim is not None and facts.claim.override else ","
        text = f"It was asked for by hand ({how}){own} at {words.at(committed)}, and {beat} took it"
    else:
        late = _late(committed, facts.sending(record.due_at))
        text = f"{beat[0].upper()}{beat[1:]} claimed it at {words.at(committed)}, {late}"
        if _sent_anew(facts, record):
            text = f"It was claimed at {words.at(committed)}, {late}, and sent by {beat}"
            text += ", because a beat had died or the broker had not taken it"
        if record.origin is Origin.CATCH_UP:
            text += ": nobody did sooner, so it was caught up on"
    yield Step(what="claimed", at=committed, text=f"{text}.")


def _sent_anew(facts: Facts, record: FireRecord) -> bool:
    """Whether the first beat, or the first try, did not get its message out."""
    claim = facts.claim
    sent = record.status is not Status.PENDING and record.attempt == 1 and not record.waited_for
    return claim is not None and claim.tries > 0 and sent


def _late(committed: datetime, due: datetime) -> str:
    return "on time" if committed - due < timedelta(milliseconds=1) else f"{span(committed - due)} after it was due"


def _waited(facts: Facts, record: FireRecord, words: Words) -> Iterator[Step]:
    if not record.waited_for or record.waited_from is None or record.status is Status.WAITING:
        return
    text = f"It waited for {limit_called(record.waited_for)}"
    holder = facts.holder
    if holder is not None:
        text += f", which {holder_called(holder, words)} had" if not record.waited_for.startswith("schedule:") else ""
    if record.waited_until is not None:
        text += f", from {words.at(record.waited_from)} until {words.at(record.waited_until)}"
        text += f" ({span(record.waited_until - record.waited_from)})"
    text += "."
    if holder is not None and (end := holder_end(holder, words)):
        text += f" {end}"
    yield Step(what="waited", at=record.waited_from, text=text)


def _attempts(facts: Facts, record: FireRecord, words: Words) -> Iterator[Step]:
    if record.attempt < 2:
        return
    claim = facts.claim
    if claim is not None and claim.recovered:
        text = "The attempt before it was abandoned, and it was sent once more, as its schedule says (recover)."
    elif claim is not None and claim.retries:
        text = f"Its task asked for a retry, {counted(claim.retries, 'time')} so far."
    else:
        text = "The attempts before it ended in a retry, or with their worker."
    yield Step(what="note", text=f"This is attempt {record.attempt}. {text}")


def outcome_of(facts: Facts, record: FireRecord, words: Words) -> tuple[str, str, list[Step]]:
    """``(verdict, headline, steps)`` of a fire that has ended."""
    ended = record.finished_at
    head = named(facts, record, words)
    if record.status is Status.SUCCESS and record.reason == IN_FLIGHT:
        return (
            "in_flight_skip",
            f"{head} did nothing: its kind was busy.",
            [_in_flight(facts, record, words)],
        )
    text = _ending(facts, record, words)
    steps = [Step(what="outcome", at=ended, text=text)]
    if record.late_result is not None:
        late = f"A result came in after that. It changes nothing and is kept as a note: {line(record.late_result)}"
        steps.append(Step(what="note", text=sentence(late)))
    return str(record.status), f"{head} {_head(record)}.", steps


def _head(record: FireRecord) -> str:
    match record.status:
        case Status.SUCCESS:
            return "succeeded"
        case Status.TARGET_MISSING:
            return "failed: what it should run does not exist"
        case Status.ABANDONED if record.reason == WORKER_LOST:
            return "was abandoned: its worker was lost"
        case Status.ABANDONED if record.reason == SILENT:
            return "was abandoned: it fell silent"
        case Status.ABANDONED:
            return "was abandoned"
        case Status.EXPIRED:
            return "expired: no worker started it in time"
        case Status.UNKNOWN:
            return "was sent, and nothing has been heard of it since"
        case _ if record.reason.startswith(EXPIRED_WAITING):
            return "failed: its turn did not come in time"
        case _ if record.reason.startswith(_UNSENDABLE):
            return "failed: it could not be sent"
    return "failed"


def _ending(facts: Facts, record: FireRecord, words: Words) -> str:
    """How it ended, when, and why."""
    reason, status = record.reason, record.status
    since = record.started_at or record.sent_at or record.committed_at
    when = words.later(record.finished_at, since) if record.finished_at is not None else ""
    match status:
        case Status.SUCCESS:
            shown = "" if record.output in (None, "", "None") else f" {sentence(f'Result: {line(record.output)}')}"
            return f"It succeeded {when}.{shown}"
        case Status.EXPIRED if reason == QUEUE_DEADLINE:
            return f"No worker had started it by its queue deadline, so it expired {when}. {_hint(facts)}"
        case Status.EXPIRED:
            return f"By the time a worker got its message, its `expires` was over, so it expired {when}."
        case Status.UNKNOWN:
            return f"No worker has reported a start for {span(facts.timing.unknown_after)}. {_hint(facts)}"
        case Status.ABANDONED:
            return _abandoned(facts, record, words, since)
        case Status.TARGET_MISSING if reason == UNREGISTERED:
            worker = record.worker or "that got it"
            return f"Worker {worker} has no task {task_called(facts)}, and said so {when}. Is its code up to date?"
        case Status.TARGET_MISSING:
            return sentence(f"The task said {when} that there is no {facts.view.target!r}: {line(record.error)}")
    return _failed(record, when)


def _failed(record: FireRecord, when: str) -> str:
    reason, error = record.reason, line(record.error)
    if reason.startswith(EXPIRED_WAITING):
        what = reason.removeprefix(EXPIRED_WAITING).strip()
        what = "the fire before it" if what == "schedule" else what
        return f"It waited too long for {what} and was given up {when}, without having run. That counts as a failure."
    if reason.startswith(_UNSENDABLE):
        return sentence(f"It was given up {when}, because it cannot be sent: {line(reason.removeprefix(_UNSENDABLE))}")
    said = REASONS.get(reason, f"It failed ({reason})" if reason else "It failed")
    return sentence(f"{said}, {when}: {error}" if error else f"{said}, {when}").replace("It failed, at", "It failed at")


def _abandoned(facts: Facts, record: FireRecord, words: Words, since: datetime | None) -> str:
    worker = record.worker or "its worker"
    when = f"at {words.at(record.finished_at)}" if record.finished_at is not None else ""
    if record.finished_at is not None and record.started_at is not None and since is not None:
        when += f", {span(record.finished_at - record.started_at)} after its start"
    if record.reason.startswith(_RELEASED):
        return f"It was {record.reason} {when}, so that others could go on. That does not count as a failure."
    if record.reason == SILENT:
        text = f"It gave no sign of progress for too long and was given up {when}. {worker} may still be at it."
    elif record.reason == WORKER_LOST and record.error:
        text = f"The process that ran it on {worker} died ({line(record.error)}). It was given up {when}."
    elif record.reason == WORKER_LOST:
        silence = span(facts.timing.lease)
        text = f"Worker {worker} was lost: it gave no sign of life for {silence}. It was given up {when}."
    else:
        text = sentence(f"It was given up {when}: {record.reason or line(record.error) or 'no sign of life'}")
    again = "" if facts.view.recover else " With recover on its schedule it would be sent once more."
    return f"{text} That counts as a failure.{again}"


def _hint(facts: Facts) -> str:
    return f"Does a worker with Parrot(app) listen to {queue_called(facts)}?"


def _in_flight(facts: Facts, record: FireRecord, words: Words) -> Step:
    kind = facts.kinds.get(record.kind)
    most = f" (max_in_flight {kind.max_in_flight})" if kind is not None and kind.max_in_flight is not None else ""
    text = f"Kind {record.kind} had as many fires in flight as it may have{most}"
    holder = facts.holder
    if holder is not None:
        text += f", held by {holder_called(holder, words)}"
    text += ". It was recorded as a success that did nothing."
    if holder is not None and (end := holder_end(holder, words)):
        text += f" {end}"
    return Step(what="outcome", at=record.finished_at, text=text)
