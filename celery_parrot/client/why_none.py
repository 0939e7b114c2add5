"""The story of a due time that the history knows nothing of, or of an instant at which nothing was due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from celery_parrot.client.why_facts import Facts
from celery_parrot.client.why_state import HEADS, obstacles
from celery_parrot.client.why_story import Step
from celery_parrot.client.why_when import changed_by_clock
from celery_parrot.client.why_words import Words, clock, counted, dated, span, zone_name
from celery_parrot.planning import one_shot

Told = tuple[str, str, list[Step]]
"""``(verdict, headline, steps)``."""

_CODE: Final = "code"
_ANY_MOMENT: Final = timedelta(seconds=2)
_ANEW: Final = "To create, edit, enable or deploy a schedule never makes up for earlier due times."


def absent(facts: Facts, words: Words) -> Told:
    """Why there is no fire."""
    if facts.trigger is None:
        found = list(obstacles(facts, words))
        return found[0][0], f"{facts.view.name} is not due at any time: {HEADS[found[0][0]]}.", _now(found)
    if not facts.is_due:
        return "not_due", _head(facts, words), [_note(_not_due(facts, words))]
    if facts.due_at > facts.now:
        return _future(facts, words)
    if _before_creation(facts):
        return _created_later(facts, words)
    if facts.mark is not None and facts.due_at <= facts.mark and not _after_the_last(facts):
        return _unrecorded(facts, words)
    return _undecided(facts, words)


def _now(found: Sequence[tuple[str, str]]) -> list[Step]:
    return [Step(what="now", text=text) for _, text in found]


def _note(text: str, at: datetime | None = None) -> Step:
    return Step(what="note", text=text, at=at)


# --- nothing was due ---


def _head(facts: Facts, words: Words) -> str:
    if facts.moment is not None and facts.moment.absent:
        missing = f"{dated(facts.moment.reading)} {zone_name(words.own)}"
        return f"{facts.view.name} was not due at {missing}: there was no such time."
    tense = "was" if facts.due_at <= facts.now else "is"
    return f"{facts.view.name} {tense} not due at {words.due(facts.due_at)}."


def _not_due(facts: Facts, words: Words) -> str:
    view = facts.view
    assert facts.trigger is not None
    if text := _clock_change(facts, words):
        return text
    if (only := one_shot(facts.trigger)) is not None:
        return f"It is due only once, {words.due(only)}."
    if view.start_at is not None and facts.due_at < view.start_at:
        return f"Its due times begin with its start_at, {words.due(view.start_at)}."
    if view.end_at is not None and facts.due_at > view.end_at:
        return f"Its due times end with its end_at, {words.due(view.end_at)}."
    return "Its schedule does not name that time."


def _clock_change(facts: Facts, words: Words) -> str:
    if facts.moment is None or facts.trigger is None:
        return ""
    changed = changed_by_clock(facts.trigger, facts.moment)
    if changed is None:
        return ""
    zone, reading = zone_name(words.own), clock(changed.reading)
    if not changed.forward:
        counts = f"only the {changed.counts} of the two counts (dst_fold)"
        return f"The clock in {zone} showed {reading} twice on that day, and {counts}."
    policy = "this schedule goes by real time" if changed.continuous else "such due times are dropped (dst_gap: skip)"
    return f"The clock in {zone} went forward over {reading}, and {policy}."


# --- due, but not yet decided ---


def _future(facts: Facts, words: Words) -> Told:
    found = list(obstacles(facts, words))
    sending = facts.sending(facts.due_at)
    steps = [_jitter(facts, sending, words)] if sending != facts.due_at else []
    named = f"{facts.view.name} is due {words.due(facts.due_at)}, in {span(facts.due_at - facts.now)}"
    if not found:
        return "future", f"{named}.", steps
    return found[0][0], f"{named}, but {HEADS[found[0][0]]}.", [*steps, *_now(found)]


def _jitter(facts: Facts, sending: datetime, words: Words) -> Step:
    later, most = span(sending - facts.due_at), span(facts.view.jitter)
    text = f"By its jitter of up to {most} it is sent {later} after it is due, at {words.at(sending)}."
    return Step(what="due", at=sending, text=text)


def _undecided(facts: Facts, words: Words) -> Told:
    sending = facts.sending(facts.due_at)
    found = list(obstacles(facts, words))
    named = f"{facts.view.name}, due {words.due(facts.due_at)},"
    if found:
        return found[0][0], f"{named} has not run: {HEADS[found[0][0]]}.", _now(found)
    if sending > facts.now:
        return "jitter", f"{named} is sent in {span(sending - facts.now)}.", [_jitter(facts, sending, words)]
    late = facts.now - sending
    headline = f"{named} has not run yet: no beat has decided about it."
    if late < _ANY_MOMENT:
        return "undecided", headline, [Step(what="now", text=f"That was {span(late)} ago: any moment now.")]
    text = f"It has been due for {span(late)}, and {counted(len(facts.living), 'beat')} "
    text += f"{'is' if len(facts.living) == 1 else 'are'} alive. `doctor` looks for what is wrong."
    if facts.mark is None:
        text = "No beat has met this schedule yet. Do the beats run the same code and settings as this process?"
    return "undecided", headline, [Step(what="now", text=text)]


def _after_the_last(facts: Facts) -> bool:
    """Due times after the last fire that it may have are passed over without a word."""
    return facts.used_up and facts.history.newest is not None and facts.due_at > facts.history.newest


# --- decided, but unknown ---


def _before_creation(facts: Facts) -> bool:
    if facts.view.store == _CODE:
        return False  # its stamp is the start of the process that asks
    created = facts.view.created_at
    assert facts.trigger is not None
    return created is not None and facts.due_at <= created and one_shot(facts.trigger) is None


def _created_later(facts: Facts, words: Words) -> Told:
    created = facts.view.created_at
    assert created is not None
    headline = f"{facts.view.name} did not run at {words.due(facts.due_at)}: it did not exist yet."
    return "before_created", headline, [_note(f"It was created {words.due(created)}. {_ANEW}", created)]


def _unrecorded(facts: Facts, words: Words) -> Told:
    """The history may be too short; the schedule may have been another one; or what was known is lost."""
    timing, history, view = facts.timing, facts.history, facts.view
    headline = f"{view.name}, due {words.due(facts.due_at)}, is not in the history."
    if facts.due_at < facts.now - timedelta(days=timing.history_days):
        kept = f"History is kept for {timing.history_days:g} days (parrot_history_days)"
        return "forgotten", headline, [_note(f"{kept}, and that was {words.distance(facts.due_at)}.")]
    if history.full and history.oldest is not None and facts.due_at < history.oldest:
        kept = f"History is kept of the newest {timing.history_limit} (parrot_history_limit)"
        return "forgotten", headline, [_note(f"{kept}, and the oldest of them was due {words.due(history.oldest)}.")]
    if view.updated_at is not None and facts.due_at <= view.updated_at:
        changed = f"Its definition was changed after that, {words.due(view.updated_at)} (now version {view.version})"
        text = f"{changed}, and by the one before this may not have been a due time. {_ANEW}"
        return "unrecorded", headline, [_note(text, view.updated_at)]
    if history.oldest is None or facts.due_at < history.oldest:
        text = "The beats met the schedule, as it is now, only after that: it was neither fired nor missed."
        return "before_created", headline, [_note(f"{text} {_ANEW}")]
    text = (
        "Later due times are decided, so this one was as well. Either the schedule was another one at the time, or the"
    )
    return "unrecorded", headline, [_note(f"{text} coordinator lost what it had written last.")]
