"""The story of a due time that was decided without a fire: missed or skipped, and by which rule."""

from __future__ import annotations

from datetime import datetime

from celery_parrot.client.why_common import beat_called
from celery_parrot.client.why_facts import Facts
from celery_parrot.client.why_story import Step
from celery_parrot.client.why_words import Words, counted, span
from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.planning import PAUSED, SUPERSEDED
from celery_parrot.planning.backlog import CAPPED, COALESCED, TOO_LATE
from celery_parrot.protocols import OVERLAP


def passed_over(facts: Facts, record: FireRecord, words: Words) -> tuple[str, str, list[Step]]:
    """``(verdict, headline, steps)``."""
    verdict = "missed" if record.status is Status.MISSED else "skipped"
    headline = f"{facts.view.name}, due {words.due(facts.due_at)}, {_head(record)}."
    steps = [Step(what="outcome", at=record.finished_at, text=_text(facts, record, words))]
    if record.count > 1 and record.until is not None:
        last = words.at(record.until)
        text = f"The same holds for {counted(record.count, 'due time')} from {words.at(record.due_at)} to {last}."
        steps.append(Step(what="note", text=text))
    return verdict, headline, steps


def _head(record: FireRecord) -> str:
    if record.status is Status.MISSED:
        return {
            TOO_LATE: "was missed: it was too late when a beat could see to it",
            COALESCED: "was missed: only a later one of a backlog was run",
            CAPPED: "was missed: it was one of too many in a backlog",
            SUPERSEDED: "was missed: its schedule was changed",
        }.get(record.reason, "was missed")
    return {
        PAUSED: "was skipped: its schedule was paused",
        OVERLAP: "was skipped: the fire before it was still in flight",
        "deleted": "was skipped: its schedule was deleted",
    }.get(record.reason, "was skipped")


def _text(facts: Facts, record: FireRecord, words: Words) -> str:
    when = "" if record.finished_at is None else words.at(record.finished_at)
    late = "" if record.finished_at is None else span(record.finished_at - facts.sending(facts.due_at))
    beat = beat_called(record.beat, facts.beats)
    match record.reason:
        case reason if reason == TOO_LATE:
            return _too_late(facts, record, words, when, late, beat)
        case reason if reason == COALESCED:
            what = f"At {when}, {late} after it was due, {beat} found a backlog of due times. Of one only the latest is"
            return f"{what} run (missed: coalesce){_into(facts, words)}."
        case reason if reason == CAPPED:
            what = f"At {when}, {late} after it was due, {beat} found a backlog of due times. Of one only the newest"
            return f"{what} {facts.view.catch_up_limit} are caught up on (catch_up_limit)."
        case reason if reason == SUPERSEDED:
            what = f"At {when} its schedule was edited or enabled anew, before a beat had decided about this due time."
            return f"{what} That starts its due times anew from then on."
        case reason if reason == PAUSED and record.committed_at is not None:
            return f"Its schedule was paused before its message was out, and so it was dropped at {when}."
        case reason if reason == PAUSED:
            return f"It was resumed at {when}. What comes due in a pause is not made up for."
        case reason if reason == OVERLAP:
            return _overlap(facts, words, when)
        case "deleted":
            return f"When its message was to be sent, at {when}, no store had its schedule any more."
        case "excluded":
            return f"Its exclusion group was taken at {when}."
    return f"It was {record.status} at {when} ({record.reason or 'no reason was noted'})."


def _too_late(facts: Facts, record: FireRecord, words: Words, when: str, late: str, beat: str) -> str:
    if record.committed_at is not None:
        claimed = words.at(record.committed_at)
        text = f"It was claimed at {claimed}, but it could not be sent until {when}, {late} after it was due"
    else:
        text = f"The first beat to look at it was {beat}, at {when}, {late} after it was due"
    grace = facts.view.misfire_grace
    if facts.view.missed == "skip" and record.committed_at is None:
        text += ", and its policy is to leave out what was missed (missed: skip)"
    elif grace is not None:
        text += f"; later than {span(grace)} is too late (misfire_grace)"
    return f"{text}.{_no_beat_then(facts, words)}"


def _no_beat_then(facts: Facts, words: Words) -> str:
    """A hint why nobody looked sooner."""
    if not facts.living:
        return ""
    first: datetime = min(beat.started for beat in facts.living)
    if first <= facts.due_at:
        return ""
    return f" Every beat that is alive now was started after that, the first at {words.at(first)}."


def _into(facts: Facts, words: Words) -> str:
    into = facts.into
    if into is None:
        return ""
    return f", which was that of {words.at(into.due_at)}: {into.status}"


def _overlap(facts: Facts, words: Words, when: str) -> str:
    rule = facts.view.overlap or (facts.kind.overlap if facts.kind is not None else None) or "skip"
    holder = facts.holder
    before = "its fire before"
    if holder is not None and holder.due_at is not None:
        before = f"its fire of {words.at(holder.due_at)}"
        if holder.started_at is not None:
            before += f", which {holder.worker or 'a worker'} had been running since {words.at(holder.started_at)},"
    if rule == "skip":
        return f"At {when} {before} had not ended, and the schedule must not overlap (overlap: skip)."
    return f"At {when} {before} had not ended, and as many as may wait for it did already (overlap: {rule})."
