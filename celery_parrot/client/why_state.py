"""What keeps a schedule from firing at the moment, each as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_parrot.client.why_facts import Facts
from celery_parrot.client.why_words import Words, counted, line, sentence, span
from celery_parrot.planning import next_sending
from celery_parrot.protocols import State

_STORE_PATIENCE: Final = 5.0
"""Seconds for which a beat may be without a store before that is worth a sentence."""

HEADS: Final = {
    "broken": "its definition is broken",
    "deleted": "it has been deleted",
    "paused": "it is paused",
    "disabled": "failures have disabled it",
    "completed": "it is completed",
    "unrouted": "its kind is not routed",
    "no_beat": "no beat is alive",
    "unreachable": "its beats cannot reach what they need",
}


def obstacles(facts: Facts, words: Words) -> Iterator[tuple[str, str]]:
    """``(verdict, sentence)`` of everything that keeps it from firing, what weighs most first."""
    if facts.deleted:
        yield "deleted", "It has been deleted. What became of its due times stays until it is old enough."
        return
    if facts.trigger is None or facts.view.state is State.BROKEN:
        reason = line(facts.view.broken_reason) or "it cannot be computed"
        yield "broken", sentence(f"Its definition cannot be used, and nothing is fired until it is mended: {reason}")
    for one in (_held(facts, words), _completed(facts, words), _unrouted(facts)):
        if one is not None:
            yield one
    yield from _beats(facts, words)


def _held(facts: Facts, words: Words) -> tuple[str, str] | None:
    view, state = facts.view, facts.view.run_state
    since = f" {words.since(facts.held.at)}" if facts.held is not None and facts.held.at is not None else ""
    if state.disabled_by == "failures":
        failed = f"after {counted(state.consecutive_failures, 'failure')} in a row"
        if state.failing_since is not None:
            failed += f", the first at {words.at(state.failing_since)}"
        when = f", {words.distance(state.last_error_at)}" if state.last_error_at is not None else ""
        last = f" {sentence(f'The last error{when}: {line(state.last_error)}')}" if state.last_error else ""
        return "disabled", f"It has been disabled{since}, {failed}.{last} Once its cause is mended, resume it."
    if state.disabled_by is not None:
        note = f", with the note {line(view.note)!r}" if view.note else ""
        skipped = "What comes due meanwhile is recorded as skipped when it is resumed."
        return "paused", f"It has been paused by a person{since}{note}. {skipped}"
    return None if view.enabled else ("paused", "Its definition says enabled: false.")


def _completed(facts: Facts, words: Words) -> tuple[str, str] | None:
    view = facts.view
    if facts.used_up:
        return "completed", f"It has had as many fires as it may have: {view.max_fires} (max_fires)."
    if facts.trigger is None or facts.definition is None or facts.mark is None:
        return None
    if next_sending(facts.definition, facts.trigger, facts.mark) is not None:
        return None
    if view.end_at is not None:
        return "completed", f"Nothing more will come: its end_at is {words.due(view.end_at)}."
    return "completed", "Nothing more will come: it has no further due times."


def _unrouted(facts: Facts) -> tuple[str, str] | None:
    if facts.kind is not None or facts.definition is None:
        return None
    grace = facts.view.misfire_grace
    late = "" if grace is None else f", or until they are {span(grace)} late (misfire_grace)"
    known = ", ".join(sorted(facts.kinds))
    return "unrouted", (
        f"Its kind {facts.view.kind!r} is not in parrot_kinds here (there is {known}), so beats with these settings do "
        f"not fire it. Its due times are kept until one does{late}."
    )


def _beats(facts: Facts, words: Words) -> Iterator[tuple[str, str]]:
    view = facts.view
    if not facts.living:
        last = max(facts.beats, key=lambda beat: beat.seen, default=None)
        seen = "those that were have been stopped, or not seen for an hour"
        if last is not None:
            seen = f"the last one, on {last.host} (process {last.pid}), was seen {words.distance(last.seen)}"
        grace = view.misfire_grace
        which = "is not too late" if grace is None else f"is at most {span(grace)} late (misfire_grace)"
        yield "no_beat", f"No beat is alive: {seen}. When one starts, it fires what {which}."
    for beat in facts.living:
        away = beat.failing.get(view.store, 0.0)
        if away >= _STORE_PATIENCE:
            named = f"Beat {beat.host} (process {beat.pid})"
            yield "unreachable", f"{named} has not been able to read the {view.store} store for {span(away)}."
    if view.run_state.last_status == "lock_unavailable":
        yield "unreachable", "When it was due, the beats could not reach their coordinator, and so they sent nothing."
