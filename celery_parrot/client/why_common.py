"""Sentences that many stories share: who a beat is, what a limit is called, where a fire was sent."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.client.health import BeatView
from celery_parrot.client.why_facts import Facts, Holder
from celery_parrot.client.why_words import Words, span
from celery_parrot.dispatch.limits import in_words
from celery_parrot.model.fire import FireRecord, Origin, Status

_SCHEDULE = "schedule:"


def beat_called(owner: str, beats: Sequence[BeatView]) -> str:
    """``beat web-1 (process 7)``; by its id where it has not been seen for an hour."""
    for beat in beats:
        if beat.owner == owner:
            return f"beat {beat.host} (process {beat.pid})"
    return f"beat {owner[:8]}" if owner else "a beat"


def named(facts: Facts, record: FireRecord, words: Words) -> str:
    """How a headline begins: ``nightly, due Mon 2026-03-02 03:00:00 UTC,``."""
    asked = "asked for" if record.origin is Origin.RUN_NOW else "due"
    return f"{facts.view.name}, {asked} {words.due(record.due_at)},"


def limit_called(limit: str) -> str:
    """``group gpu``; of the limit of one schedule what it means."""
    if limit.startswith(_SCHEDULE):
        return "the fire before it to end"
    return "a free slot" if limit == "slots" else in_words(limit)


def holder_called(holder: Holder, words: Words) -> str:
    """``nightly-etl (due 02:30:00), which had been running on celery@w2 for 12 min``."""
    if not holder.name or holder.due_at is None:
        return f"fire {holder.fire_id}"
    return f"{holder.name} (due {words.at(holder.due_at)}, fire {holder.fire_id[:8]})"


def holder_end(holder: Holder, words: Words) -> str:
    """What has become of a holder since, as a sentence; empty where that is not known."""
    if holder.finished_at is not None and holder.started_at is not None:
        took = span(holder.finished_at - holder.started_at)
        return f"That one ran on {holder.worker or 'a worker'} for {took} and ended at {words.at(holder.finished_at)}."
    if holder.status is Status.RUNNING and holder.started_at is not None:
        return f"That one has been running on {holder.worker} {words.since(holder.started_at)}."
    if holder.status is Status.SENT:
        return "No worker has started that one yet."
    return ""


def queue_called(facts: Facts) -> str:
    """``queue reports``, by the definition as it is now; the queue is Celery's to choose where none is named."""
    options = facts.view.options
    if "queue" in options:
        return f"queue {_name(options['queue'])}"
    if options.keys() & {"exchange", "routing_key"}:
        parts = [f"{key.replace('_', ' ')} {options[key]}" for key in ("exchange", "routing_key") if key in options]
        return " with ".join(parts)
    if facts.kind is not None and facts.kind.queue is not None:
        return f"queue {facts.kind.queue}"
    return f"the queue to which Celery routes {task_called(facts)}"


def task_called(facts: Facts) -> str:
    """The name of the Celery task."""
    kind = facts.kind
    return kind.task if kind is not None and kind.task is not None else facts.view.target


def _name(queue: object) -> str:
    return str(getattr(queue, "name", queue))
