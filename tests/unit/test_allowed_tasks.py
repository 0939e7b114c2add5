"""``parrot_allowed_tasks`` where a schedule becomes a message, whatever store it came from."""

from __future__ import annotations

from typing import Any

import pytest

from celery_parrot import InvalidSchedule
from celery_parrot.dispatch.routing import Router
from celery_parrot.model.allowed import AllowedTasks
from celery_parrot.model.fire import FireKey, Namespace, Origin
from celery_parrot.model.schedule import Kind, Schedule
from celery_parrot.protocols import Message
from tests.unit.dispatch.test_routing import DUE, schedule
from tests.unit.runtime.test_entries import one

SOME = AllowedTasks(("t.good", "reports.*"))
AGENT = Kind(name="agent", task="agents.run")


def message(found: Schedule) -> Message:
    router = Router(Namespace("shop"), {"agent": AGENT}, allowed=SOME)
    return router.message(found, FireKey("id-1", DUE), origin=Origin.SCHEDULE)


def test_an_allowed_task_is_sent() -> None:
    assert message(schedule(target="t.good")).task == "t.good"
    assert message(schedule(target="reports.build")).task == "reports.build"


@pytest.mark.parametrize("target", ["t.bad", "T.GOOD", "t.good.more", "t.good\n", "reports", ""])
def test_another_is_not(target: str) -> None:
    with pytest.raises(InvalidSchedule, match="parrot_allowed_tasks") as told:
        message(schedule(target=target))
    assert (told.value.field, told.value.value) == ("target", target)


def test_the_task_of_a_declared_kind_is_trusted() -> None:
    """It stands in configuration; the target is only its argument. Named as a target of its own it is not."""
    assert message(schedule(kind="agent", target="t.bad")).task == "agents.run"
    with pytest.raises(InvalidSchedule):
        message(schedule(target="agents.run"))


@pytest.mark.parametrize(
    "options",
    [
        {"link": {"task": "t.bad"}},
        {"link_error": [{"task": "t.good"}, {"task": "t.bad"}]},
        {"chain": [{"task": "celery.chain", "kwargs": {"tasks": [{"task": "t.bad"}]}}]},
        {"chord": {"task": "t.good", "options": {"link": [{"task": "t.bad"}]}}},
        {"link": {"task": ["t.good"]}},
        {"link": "t.bad"},
        {"link_error": ["t.good", "t.bad"]},
        {"link": {"task": "t.good", "options": {"link": "t.bad"}}},
    ],
)
def test_what_follows_a_task_is_looked_at(options: dict[str, Any]) -> None:
    for kind in ("task", "agent"):
        with pytest.raises(InvalidSchedule, match=r"options\.(link|link_error|chain|chord)"):
            message(schedule(kind=kind, target="t.good", options=options))


def test_an_allowed_task_may_follow() -> None:
    for link in ({"task": "reports.done", "args": ["t.bad"], "kwargs": {"link": "t.bad"}}, "reports.done"):
        assert message(schedule(target="t.good", options={"link": link})).options["link"] == link


def test_headers_of_the_options_name_no_task() -> None:
    """Celery would let them win over its own, and the worker would run what they say."""
    made = message(schedule(target="t.good", options={"headers": {"task": "t.bad", "id": "x", "mine": 1}}))
    assert made.headers["mine"] == 1
    assert not made.headers.keys() & {"task", "id"}


def test_a_schedule_in_code_is_broken() -> None:
    """With the reason; Celery's own clean-up is none of anybody's business."""
    wrong = one({"task": "t.bad", "schedule": 30}, parrot_allowed_tasks=["t.good"])
    assert "parrot_allowed_tasks" in wrong.broken
    assert one({"task": "t.good", "schedule": 30}, parrot_allowed_tasks=["t.good"]).trigger is not None
    assert one({"task": "celery.backend_cleanup", "schedule": 30}, parrot_allowed_tasks=[]).trigger is not None
