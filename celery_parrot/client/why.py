"""Why a schedule ran or did not run at some due time: facts first, then sentences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from celery_parrot.client.why_facts import Facts, zone_of
from celery_parrot.client.why_fires import outcome_of, steps_of
from celery_parrot.client.why_flight import now_of
from celery_parrot.client.why_missed import passed_over
from celery_parrot.client.why_none import absent
from celery_parrot.client.why_state import obstacles
from celery_parrot.client.why_story import Step, Story
from celery_parrot.client.why_words import Words, clock, counted, span, zone_name
from celery_parrot.model.fire import Origin, Status
from celery_parrot.triggers import preview

_STATUS: Final = {Status.SUCCESS: "succeeded", Status.ERROR: "failed", Status.TARGET_MISSING: "failed"}


def story_of(facts: Facts) -> Story:
    """Pure: equal facts, equal words."""
    zone = zone_of(facts.view, facts.trigger)
    words = Words(viewer=facts.viewer, own=zone, now=facts.now, base=facts.due_at)
    record = facts.record
    told: list[Step] = []
    if record is None:
        verdict, headline, rest = absent(facts, words)
    elif record.status in (Status.MISSED, Status.SKIPPED):
        told = list(steps_of(facts, record, words)) if record.committed_at is not None else []
        verdict, headline, rest = passed_over(facts, record, words)
    else:
        told = list(steps_of(facts, record, words))
        verdict, headline, rest = (outcome_of if record.status.terminal else now_of)(facts, record, words)
    steps = [*_opening(facts, words), *told, *rest]
    if record is not None:
        steps += _standing(facts, words)
    return Story(
        schedule=facts.view.name,
        due_at=facts.due_at,
        verdict=verdict,
        sentence=headline,
        steps=tuple(steps),
        previous=facts.previous,
        next=facts.next,
        fire_id=record.fire_id if record is not None and record.committed_at is not None else None,
        closing=_closing(facts, words),
    )


def _opening(facts: Facts, words: Words) -> Iterator[Step]:
    """What the schedule says, and what became of its reading on that day."""
    if facts.trigger is not None:
        yield Step(what="schedule", text=f"Its schedule: {facts.trigger.describe()}")
    record = facts.record
    if record is not None and record.origin in (Origin.SCHEDULE, Origin.CATCH_UP):
        if not facts.is_due and facts.trigger is not None:
            yield Step(
                what="note",
                text="By its schedule as it is now that is no due time: it has been edited since.",
            )
        elif (text := _clock_note(facts, words)) is not None:
            yield Step(what="due", at=facts.due_at, text=text)
        sending = facts.sending(record.due_at)
        if sending != record.due_at and record.committed_at is not None:
            later = span(sending - record.due_at)
            most = span(facts.view.jitter)
            text = f"By its jitter of up to {most} it was to be sent {later} after it was due, at {words.at(sending)}."
            yield Step(what="due", at=sending, text=text)
    if facts.more:
        yield Step(what="note", text=f"That covers {counted(facts.more + 1, 'due time')}; this is the first of them.")


def _clock_note(facts: Facts, words: Words) -> str | None:
    """Where a clock change moved or repeated the reading."""
    if facts.trigger is None:
        return None
    found = [
        one for one in preview(facts.trigger, facts.due_at - timedelta(seconds=1), 1) if one.due_at == facts.due_at
    ]
    mark = next((one for one in found if one.fires), None)
    if mark is None or not mark.mark:
        return None
    zone = zone_name(words.own)
    if mark.mark == "moved":
        return (
            f"The clock in {zone} never showed {clock(mark.reading)} on that day: it went forward over it. So it was "
            f"due at the first instant after, {words.at(facts.due_at)}."
        )
    which = "second" if mark.local.fold else "first"
    return f"The clock in {zone} showed {clock(mark.reading)} twice on that day; this was the {which} of the two."


def _standing(facts: Facts, words: Words) -> Iterator[Step]:
    """What has come between since, if the fire is the latest there is."""
    for _, text in obstacles(facts, words) if facts.latest else ():
        yield Step(what="now", text=text)


def _closing(facts: Facts, words: Words) -> str:
    """The due times around it."""
    parts: list[str] = []
    if (previous := facts.previous) is not None:
        status = "" if facts.before is None else f", {_STATUS.get(facts.before.status, str(facts.before.status))}"
        parts.append(f"The due time before: {words.due(previous)}{status}.")
    if (coming := facts.next) is not None:
        parts.append(f"The next: {words.due(coming)}{_ahead(facts, coming)}.")
    return " ".join(parts)


def _ahead(facts: Facts, at: datetime) -> str:
    return f", in {span(at - facts.now)}" if at > facts.now else ""
