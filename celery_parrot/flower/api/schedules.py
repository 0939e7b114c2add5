"""Schedules: look, and change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from celery_parrot.client import (
    ScheduleView,
    fire_fields,
    has_mask,
    occurrence_fields,
    schedule_fields,
    without_secrets,
)
from celery_parrot.errors import InvalidSchedule
from celery_parrot.flower.api.operations import Ask, Reply
from celery_parrot.flower.api.refusals import invalid
from celery_parrot.model.plain import plain
from celery_parrot.triggers import Occurrence, Trigger, preview

# --- look ---


def find(ask: Ask) -> Reply:
    page = ask.client.find(**ask.given)
    items = [shown(ask, view) for view in page]
    return Reply(body={"items": items, "after": page.after, "next": page.after})


def get(ask: Ask) -> Reply:
    return one(ask, ask.client.get(ask.name))


def upcoming(ask: Ask) -> Reply:
    client, count = ask.client, int(ask.given.get("count", 5))
    view = client.get(ask.name)
    try:
        trigger = client.trigger_of(view)
    except InvalidSchedule as error:
        reason = view.broken_reason or str(error)
        raise InvalidSchedule("definition", view.name, f"is broken: {reason}") from None
    now = ask.desk.clock.now()
    if view.max_fires is not None:
        count = max(0, min(count, view.max_fires - view.run_state.auto_count))
    after = max(now, view.run_state.last_due or now)
    return Reply(body=_occurrences(preview(trigger, after, count)))


def fires(ask: Ask) -> Reply:
    limit = int(ask.given.get("limit", 100))
    found = ask.client.fires(ask.name, limit=limit, before=instant_of(ask, "before"))
    before = found[-1].due_at.isoformat() if len(found) == limit else ""
    return Reply(body={"items": [fire_fields(record) for record in found], "before": before})


def why(ask: Ask) -> Reply:
    at, fire = ask.given.get("at"), ask.given.get("fire")
    if at is not None and fire is not None:
        raise invalid("at", at, "give either at or fire, not both")
    story = ask.client.why(ask.name, at, fire)
    return Reply(body={**story.to_json(), "closing": story.closing})


def preview_(ask: Ask) -> Reply:
    fields = dict(ask.body)
    count = fields.pop("count", 5)
    trigger = ask.client.trigger_for(**fields)
    return Reply(body=previewed(trigger, ask.desk.clock.now(), count))


def previewed(trigger: Trigger, after: datetime, count: int) -> dict[str, Any]:
    return {"sentence": trigger.describe(), "next": _occurrences(preview(trigger, after, count))}


# --- change ---


def create(ask: Ask) -> Reply:
    refuse_masks(ask.body)
    view = ask.client.create(**ask.body)
    reply = one(ask, view)
    return Reply(body=reply.body, version=reply.version, status=201, at=schedule_at(view))


def update(ask: Ask) -> Reply:
    fields = {name: value for name, value in ask.body.items() if name != "version"}
    refuse_masks(fields)
    return one(ask, ask.client.update(ask.name, ask.version, **fields))


def delete(ask: Ask) -> Reply:
    ask.client.delete(ask.name, version=ask.version)
    return Reply(status=204)


def pause(ask: Ask) -> Reply:
    return one(
        ask, ask.client.pause(ask.name, note=ask.body.get("note", ""), actor=ask.actor, version=ask.version)
    )  # fmt: skip


def resume(ask: Ask) -> Reply:
    return one(ask, ask.client.resume(ask.name, version=ask.version))


def run_now(ask: Ask) -> Reply:
    body = {name: value for name, value in ask.body.items() if name != "version"}
    asked = ask.client.run_now(ask.name, version=ask.version, **body)
    return Reply(body=plain(asked), status=202)


# --- what others here need, too ---


def one(ask: Ask, view: ScheduleView) -> Reply:
    """It, with its version."""
    return Reply(body=shown(ask, view), version=view.version)


def shown(ask: Ask, view: ScheduleView) -> dict[str, Any]:
    """As ``parrot show --json`` has it, but for secrets."""
    sentence = ask.client.describe(view)
    fields = {**schedule_fields(view, sentence), "sentence": sentence}
    return {name: without_secrets(name, value) for name, value in fields.items()}


def refuse_masks(fields: Any) -> None:
    """What was shown masked cannot be saved as it was shown."""
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if has_mask(name, value):
            raise invalid(
                name,
                "…",
                "holds the mark … that stands for a secret here: give the whole value, or leave the field out",
            )


def schedule_at(view: ScheduleView) -> str:
    return f"/schedules/{view.schedule_id}"


def instant_of(ask: Ask, name: str) -> datetime | None:
    """A parameter that is an instant."""
    text = ask.given.get(name)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(name, text, "must be an instant with its offset, such as 2026-03-02T03:00:00+00:00") from None


def _occurrences(found: tuple[Occurrence, ...]) -> list[dict[str, Any]]:
    return [{**occurrence_fields(each), "mark": each.mark or None} for each in found]
