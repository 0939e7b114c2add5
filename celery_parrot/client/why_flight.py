"""The story of a fire that is still on its way: what it is waiting for right now, and until when."""

from __future__ import annotations

from datetime import timedelta

from celery_parrot.client.why_common import beat_called, limit_called, named
from celery_parrot.client.why_facts import Facts
from celery_parrot.client.why_story import Step
from celery_parrot.client.why_words import Words, counted, span
from celery_parrot.model.fire import Fire, FireRecord, Status
from celery_parrot.protocols import SLOTS, LimitState, Waiting


def now_of(facts: Facts, record: FireRecord, words: Words) -> tuple[str, str, list[Step]]:
    """``(verdict, headline, steps)`` of a fire that has not ended."""
    head = named(facts, record, words)
    match record.status:
        case Status.RUNNING:
            return "running", f"{head} is running.", [_now(text) for text in _running(facts, record, words)]
        case Status.WAITING:
            text = _waiting(facts, record, words)
            return "waiting", f"{head} is waiting for its turn.", [_now(one) for one in text]
        case Status.SENT if _retries(facts, record):
            text = ["The message of its retry is on its way or waits for its time; no worker has started it yet."]
            return "sent", f"{head} is to be retried.", [_now(one) for one in text]
        case Status.SENT:
            text = _sent(facts, record, words)
            return "sent", f"{head} was sent, and no worker has started it yet.", [_now(one) for one in text]
        case _:
            text = _pending(facts, record, words)
            return "pending", f"{head} is claimed and not yet sent.", [_now(one) for one in text]


def _retries(facts: Facts, record: FireRecord) -> bool:
    return record.started_at is not None and facts.claim is not None and facts.claim.retries > 0


def _now(text: str) -> Step:
    return Step(what="now", text=text)


def _running(facts: Facts, record: FireRecord, words: Words) -> list[str]:
    claim = facts.claim
    found = [] if record.started_at is None else [f"It has been running for {span(facts.now - record.started_at)}."]
    if claim is None:
        return found
    if claim.progress and claim.progress_at is not None:
        found.append(f"Its last sign of progress was {claim.progress!r}, {words.distance(claim.progress_at)}.")
    if claim.silent_after is not None and claim.progress_at is not None:
        until = claim.progress_at + timedelta(seconds=claim.silent_after)
        found.append(f"Unless it ends or reports progress before, it is given up as silent at {words.at(until)}.")
    if claim.lease_until is not None:
        if claim.lease_until >= facts.now:
            found.append(f"The worker vouches for it until {words.at(claim.lease_until)}, and renews that as it goes.")
        else:
            ago = span(facts.now - claim.lease_until)
            found.append(
                f"The worker has given no sign of life: its lease ran out {ago} ago. The next reap gives it up."
            )
    return found


def _sent(facts: Facts, record: FireRecord, words: Words) -> list[str]:
    found = [] if record.sent_at is None else [f"It has been waiting there for {span(facts.now - record.sent_at)}."]
    claim = facts.claim
    if claim is not None and claim.deadline is not None:
        found.append(f"If no worker starts it by {words.at(claim.deadline)}, its queue deadline, it expires.")
    elif record.sent_at is not None:
        until = record.sent_at + timedelta(seconds=facts.timing.unknown_after)
        found.append(
            f"It has no queue deadline; if no start is reported by {words.at(until)}, it is recorded as unknown. "
            "Workers without Parrot(app) report none."
        )
    return found


def _pending(facts: Facts, record: FireRecord, words: Words) -> list[str]:
    claim = facts.claim
    owner = claim.owner if claim is not None else record.beat
    since = record.committed_at if record.attempt == 1 or claim is None else claim.owned_at
    lasts = f" for {span(facts.now - since)}" if since is not None else ""
    found = [f"It has been in the outbox{lasts}, and {beat_called(owner, facts.beats)} is to send it."]
    if claim is not None and claim.tries:
        found.append(f"Sending it was begun anew {counted(claim.tries, 'time')}: {_tries(record)}.")
    if not facts.living:
        found.append("No beat is alive. The first one that starts sends it, unless it is too late by then.")
    elif owner in {one.owner for one in facts.living}:
        found.append("That beat is alive: if this lasts for more than a few seconds, the broker is out of its reach.")
    else:
        found.append("That beat is gone: another one takes it over within seconds.")
    return found


def _tries(record: FireRecord) -> str:
    if record.attempt > 1:
        return f"this is attempt {record.attempt}, after {record.reason or 'the one before ended'}"
    if record.waited_for:
        return "its turn has come"
    return "its beat died, or the broker did not take it"


# --- in line ---


def _waiting(facts: Facts, record: FireRecord, words: Words) -> list[str]:
    state, place = _in_line(facts, record)
    limit = state.name if state is not None else record.waited_for
    since = words.since(record.waited_from) if record.waited_from is not None else ""
    found = [f"It has been standing in line for {limit_called(limit)} {since}.".replace(" .", ".")]
    if state is None:
        return found
    found.extend(_held_by(holder.fire, words) for holder in state.holders)
    if state.capacity > 1:
        found.append(f"{len(state.holders)} of {state.capacity} places are taken.")
    ahead = state.waiting[:place]
    behind = f", behind {_listed(ahead, words)}" if ahead else ""
    if len(state.waiting) > 1:
        found.append(f"It is number {place + 1} of {len(state.waiting)} in that line{behind}.")
    elif state.holders:
        found.append("It is next.")
    until = state.waiting[place].until
    if until is not None:
        found.append(f"It gives up at {words.at(until)} ({words.distance(until)}).")
    return found


def _in_line(facts: Facts, record: FireRecord) -> tuple[LimitState | None, int]:
    """The limit that keeps it back and its place in that line. Slots are judged last."""
    lines = [
        (state, place)
        for state in facts.limits
        for place, one in enumerate(state.waiting)
        if one.fire.key == record.key
    ]
    full = [item for item in lines if len(item[0].holders) >= item[0].capacity]
    ranked = sorted(full or lines, key=lambda item: (item[0].name == SLOTS, item[0].name != record.waited_for))
    return ranked[0] if ranked else (None, 0)


def _held_by(fire: Fire, words: Words) -> str:
    called = f"{fire.name} (due {words.at(fire.key.due_at)})"
    if fire.status is Status.RUNNING and fire.started_at is not None:
        note = f", {fire.progress!r}" if fire.progress else ""
        return f"{called} holds it, running on {fire.worker} {words.since(fire.started_at)}{note}."
    if fire.status is Status.SENT and fire.sent_at is not None:
        return f"{called} holds it, was sent {words.distance(fire.sent_at)} and has not been started yet."
    return f"{called} holds it, on its way to the broker."


def _listed(waiting: tuple[Waiting, ...], words: Words) -> str:
    shown = [f"{one.fire.name} (due {words.at(one.fire.key.due_at)})" for one in waiting[:3]]
    more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
    return ", ".join(shown) + more
