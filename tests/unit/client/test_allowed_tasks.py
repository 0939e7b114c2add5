"""``parrot_allowed_tasks`` at the doors of the client, and in a store that was written past them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_parrot import InvalidSchedule
from celery_parrot.client import CodeDefinitions, Rules, Schedules
from celery_parrot.client.applying import Action
from celery_parrot.model.allowed import AllowedTasks
from celery_parrot.protocols.editing import State
from celery_parrot.stores.sql import SqlStore
from tests.unit.client.conftest import World

FIELDS: dict[str, Any] = {"target": "t.good", "schedule_type": "interval", "schedule_config": {"seconds": 30}}
SOME = AllowedTasks(("t.good", "reports.*"))


@pytest.fixture
def limited(world: World, agreed: Callable[[World], None]) -> World:
    """As configured with a list; the code's schedules call ``t.code``, which is not in it."""
    world.db = SqlStore(world.db.engine, allowed_tasks=SOME)
    world.client = Schedules(
        code=CodeDefinitions(lambda: world.code, world.coordinator, world.clock),
        stores={"db": world.db},
        rules=Rules(allowed=SOME),
        clock=world.clock,
        warn=world.warned.append,
    )
    agreed(world)
    return world


def refused(limited: World, call: Callable[[], object], field: str, value: str) -> None:
    """One error that names the field, the value and what would be right."""
    with pytest.raises(InvalidSchedule, match="parrot_allowed_tasks: name a task that is, or add") as told:
        call()
    assert (told.value.field, told.value.value) == (field, value)


def test_create_and_check(limited: World) -> None:
    client = limited.client
    assert client.create(name="a", **FIELDS).state is State.ACTIVE
    bad = {**FIELDS, "name": "b", "target": "t.bad"}
    refused(limited, lambda: client.create(**bad), "target", "t.bad")
    refused(limited, lambda: client.check(**bad), "target", "t.bad")
    refused(limited, lambda: client.create_many([{**FIELDS, "name": "c"}, bad]), "target", "t.bad")
    assert [one.name for one in client.find(store="db")] == ["a"]


def test_update(limited: World) -> None:
    """Of whatever field: what may not be called may not be saved either."""
    limited.client.create(name="a", **FIELDS)
    refused(limited, lambda: limited.client.update("a", target="t.bad"), "target", "t.bad")
    link = {"link": {"task": "t.bad"}}
    refused(limited, lambda: limited.client.update("a", options=link), "options.link", "t.bad")
    assert limited.client.get("a").target == "t.good"


@pytest.mark.parametrize("field", ["callbacks", "failure_callbacks", "missed_callbacks"])
def test_callbacks(limited: World, field: str) -> None:
    told = [{"type": "task", "task": "reports.done"}, {"type": "task", "task": "t.bad"}]
    refused(limited, lambda: limited.client.create(name="a", **FIELDS, **{field: told}), f"{field}[1].task", "t.bad")
    assert limited.client.create(name="a", **FIELDS, **{field: told[:1]}).name == "a"


def test_apply_and_import(limited: World) -> None:
    """Both compare documents first, and carry out what came of it."""
    limited.client.create(name="a", **FIELDS)
    documents = [{**FIELDS, "name": "a", "target": "t.bad"}, {**FIELDS, "name": "b", "target": "t.bad"}]
    steps = limited.client.compare(documents)
    assert [step.action for step in steps] == [Action.REFUSED, Action.REFUSED]
    assert all(step.field == "target" and "parrot_allowed_tasks" in step.error for step in steps)


def test_run_now_and_backfill(limited: World) -> None:
    """Of schedules in code, too."""
    limited.beat()
    refused(limited, lambda: limited.client.run_now("nightly"), "target", "t.code")
    refused(limited, lambda: limited.client.backfill("nightly", "2026-01-01", dry_run=True), "target", "t.code")


def test_due_times_can_be_tried_without_a_task(limited: World) -> None:
    trigger = limited.client.trigger_for(schedule_type="interval", schedule_config={"seconds": 30})
    assert trigger.next_after(limited.clock.now())


def test_a_row_by_plain_sql(limited: World) -> None:
    """It is broken with the reason, harms no other, cannot be run by hand, and runs once it is allowed."""
    limited.client.create(name="a", **FIELDS)
    with limited.db.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO service_scheduler (name, target_kind, target_name, schedule_type, schedule_config) "
            "VALUES ('bad', 'task', 't.bad', 'interval', '{\"seconds\": 1}')"
        )
    limited.clock.advance(60)
    due = limited.db.due(limited.clock.now(), ["task"], 10)
    assert [one.schedule.name for one in due] == ["a"]
    broken = limited.client.get("bad")
    assert broken.state is State.BROKEN
    assert broken.broken_reason
    assert broken.broken_reason.startswith("target = 't.bad': is not in parrot_allowed_tasks")
    assert [one.name for one in limited.client.find(state=State.BROKEN, store="db")] == ["bad"]
    refused(limited, lambda: limited.client.run_now("bad"), "target", "t.bad")
    assert not limited.db.definitions([broken.schedule_id])
    later = SqlStore(limited.db.engine)  # of a beat that has no list
    limited.clock.advance(61)
    later.due(limited.clock.now(), ["task"], 10)  # finds that it is whole
    limited.clock.advance(61)
    assert {one.schedule.name for one in later.due(limited.clock.now(), ["task"], 10)} == {"a", "bad"}
