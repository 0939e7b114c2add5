"""Who beats, who holds what, how healthy it is, what there is to choose from."""

from __future__ import annotations

from celery_parrot.client import Health, schedule_schema
from celery_parrot.errors import Unreachable
from celery_parrot.flower.api.operations import Ask, Reply
from celery_parrot.model.fire import Status
from celery_parrot.model.plain import plain
from celery_parrot.model.schedule import TASK_KIND
from celery_parrot.model.secrets import mask
from celery_parrot.protocols import State
from celery_parrot.runtime.celery_schedules import zone_name
from celery_parrot.runtime.reach import coordinator_at, out_of_reach
from celery_parrot.triggers import SCHEDULE_TYPES


def groups(ask: Ask) -> Reply:
    return Reply(body={"items": plain(ask.client.groups())})


def release(ask: Ask) -> Reply:
    ended = ask.client.release_group(ask.name, ask.body.get("fire_id"), actor=ask.actor)
    return Reply(body=plain(ended))


def beats(ask: Ask) -> Reply:
    client, skew = ask.client, ask.desk.settings.max_clock_skew
    return Reply(body={"items": plain(client.beats()), "health": plain(client.health()), "max_clock_skew": skew})


def health(ask: Ask) -> Reply:
    try:
        found = ask.client.health()
    except Unreachable as error:
        settings = ask.desk.settings
        reason = mask(out_of_reach(settings, error)).rstrip(".")
        found = Health(healthy=False, coordinator=coordinator_at(settings), reason=reason)
    return Reply(body=plain(found), status=200 if found.healthy else 503)


def kinds(ask: Ask) -> Reply:
    settings = ask.desk.settings
    return Reply(
        body={
            "kinds": sorted({TASK_KIND, *settings.kinds}),
            "stores": list(ask.client.stores),
            "states": [state.value for state in State],
            "statuses": [status.value for status in Status],
            "schedule_types": list(SCHEDULE_TYPES),
            "timezone": zone_name(ask.desk.app.timezone),
            "may_write": ask.why_not is None,
            "why_not": ask.why_not,
            "actor": ask.actor,
        }
    )


def timeline(ask: Ask) -> Reply:
    return Reply(body=plain(ask.desk.timeline.snapshot().to_json()))


def schema(ask: Ask) -> Reply:
    return Reply(body=schedule_schema())


def heard(ask: Ask) -> Reply:
    page = ask.desk.feed.page(**ask.given)
    return Reply(
        body={
            "items": plain(page.items),
            "after": page.after,
            "next": page.after,
            "listening": ask.listening,
            "events_on": ask.desk.settings.send_events,
        }
    )
