"""Whatever stands in Redis or in a row: a reason, never an exception; nothing hangs, nothing is evaluated."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from celery_parrot.dispatch.routing import Router
from celery_parrot.errors import InvalidSchedule
from celery_parrot.model import codec
from celery_parrot.model.allowed import AllowedTasks
from celery_parrot.model.fire import FireKey, Namespace, Origin
from celery_parrot.planning import following
from celery_parrot.stores.redis.definitions import read as read_text
from celery_parrot.stores.sql.definitions import COLUMNS
from celery_parrot.stores.sql.definitions import read as read_row
from celery_parrot.triggers import SCHEDULE_TYPES
from tests.support.fuzz import VALUES, changed, each, tried
from tests.unit.dispatch.test_routing import schedule

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
ALLOWED = AllowedTasks(("reports.*",))
BODY = json.loads(codec.encode(schedule(schedule_id=ID, schedule_config={"seconds": 30}, created_at=NOW)))
ROW: dict[str, Any] = {
    **dict.fromkeys(COLUMNS),
    "schedule_id": ID, "version": 1, "created_at": NOW, "name": "nightly", "target_kind": "task",
    "target_name": "reports.build", "schedule_type": "interval", "schedule_config": '{"seconds": 30}', "enabled": True,
}  # fmt: skip
KEYS = [
    "expr",
    "minute",
    "hour",
    "day",
    "day_of_week",
    "n",
    "seconds",
    "offset",
    "run_date",
    "delay",
    "event",
    "lat",
    "lon",
    "rule",
    "dtstart",
    "start_hour",
    "end_hour",
    "fires_per_day",
    "tz",
    "dst_gap",
    "dst_fold",
]
CONFIGS = st.fixed_dictionaries(
    {
        "schedule_type": st.sampled_from(SCHEDULE_TYPES),
        "schedule_config": st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3),
    }
)


def used(definition: Any) -> None:
    """As a beat uses what it has read: what a trigger raises is caught there, what hangs is not."""
    assert (definition.trigger is None) == bool(definition.fault)
    if definition.trigger is None:
        assert "\0" not in definition.fault
        return
    assert ALLOWED.allows(definition.schedule.target) or definition.schedule.kind != "task"
    with suppress(Exception):
        following(definition.schedule, definition.trigger, NOW, 0)
    router = Router(Namespace("shop"), {}, allowed=ALLOWED)
    if definition.schedule.kind in router.routed:
        with suppress(Exception):
            made = router.message(definition.schedule, FireKey(ID, NOW), origin=Origin.SCHEDULE)
            assert ALLOWED.allows(made.task)


def test_bytes_in_redis(full: bool) -> None:
    tried(st.binary(max_size=200), lambda raw: used(read_text(raw, ID, "UTC", ALLOWED)), full=full)


def test_definitions_in_redis(full: bool) -> None:
    """Valid JSON with any field replaced."""

    def check(body: dict[str, Any]) -> None:
        used(read_text(json.dumps(body).encode("utf-8", "surrogatepass"), ID, "UTC", ALLOWED))

    for body in each(BODY):
        check(body)
    tried(changed(BODY), check, full=full, short=200)
    tried(CONFIGS.map(lambda when: {**BODY, **when}), check, full=full, short=300)


def test_rows(full: bool) -> None:
    """Columns of any type, and JSON columns of any JSON."""
    texts = st.one_of(VALUES, VALUES.map(json.dumps), st.binary(max_size=20))
    for row in each(ROW):
        used(read_row({**ROW, **row}, "UTC", ALLOWED))
    tried(changed(ROW, texts), lambda row: used(read_row({**ROW, **row}, "UTC", ALLOWED)), full=full, short=300)

    def with_config(when: dict[str, Any]) -> None:
        config = json.dumps(when["schedule_config"])
        used(read_row({**ROW, **when, "schedule_config": config}, "UTC", ALLOWED))

    tried(CONFIGS, with_config, full=full)


def test_the_codec(full: bool) -> None:
    """InvalidSchedule and nothing else; what it reads it writes so that it is read as the same."""

    def check(body: Any) -> None:
        text = json.dumps(body)
        try:
            found = codec.decode(text)
        except InvalidSchedule:
            return
        assert codec.encode(codec.decode(codec.encode(found))) == codec.encode(found)

    for body in each(BODY):
        check(body)
    tried(st.one_of(changed(BODY), VALUES), check, full=full, short=300)
