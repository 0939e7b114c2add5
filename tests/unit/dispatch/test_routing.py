"""From a schedule and a fire to the message: the calling convention, options, headers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from celery_parrot.dispatch.routing import Router
from celery_parrot.model.fire import FireKey, Namespace, Origin
from celery_parrot.model.schedule import Kind, Schedule
from celery_parrot.protocols import Message

NAMESPACE = Namespace("shop")
DUE = datetime(2026, 5, 1, 12, tzinfo=UTC)
AGENT = Kind(name="agent", task="agents.run", queue="agents", priority=3, time_limit=60, soft_time_limit=50)


def schedule(**fields: Any) -> Schedule:
    return Schedule(
        **{
            "schedule_id": "id-1",
            "name": "nightly",
            "target": "reports.build",
            "schedule_type": "interval",
            "schedule_config": {},
            **fields,
        }
    )


def message(
    one: Schedule, *, kinds: Mapping[str, Kind] | None = None, key: FireKey | None = None, **more: Any
) -> Message:
    router = Router(NAMESPACE, kinds if kinds is not None else {"agent": AGENT})
    return router.message(one, key or FireKey("id-1", DUE), **{"origin": Origin.SCHEDULE, **more})


def test_the_kind_task_calls_the_target_with_its_own_arguments() -> None:
    """Args and kwargs as they stand in the schedule; no queue of ours, so Celery's routing applies."""
    made = message(schedule(args=(1, "two"), kwargs={"three": 3}, prompt="not for a plain task"))
    assert (made.task, made.args, made.kwargs, made.options) == ("reports.build", (1, "two"), {"three": 3}, {})


def test_other_kinds_call_their_task_with_the_target_first() -> None:
    """``task(target, method_name=…, prompt=…, target_id=…, tenant=…, **metadata)``, omitting what is null."""
    made = message(schedule(kind="agent", target="sales", prompt="hello", tenant="acme", kwargs={"depth": 2}))
    assert made.task == "agents.run"
    assert made.args == ("sales",)
    assert made.kwargs == {"prompt": "hello", "tenant": "acme", "depth": 2}


def test_all_of_the_convention_is_passed() -> None:
    """Each field under its own name; metadata may override, as the schedule's author said it last."""
    fields = {"method_name": "ask", "prompt": "p", "target_id": "7", "tenant": "t"}
    assert message(schedule(kind="agent", **fields)).kwargs == fields
    assert message(schedule(kind="agent", **fields, kwargs={"tenant": "u"})).kwargs == {**fields, "tenant": "u"}


def test_empty_strings_are_not_null() -> None:
    """Only what is absent is omitted."""
    assert message(schedule(kind="agent", prompt="")).kwargs == {"prompt": ""}


def test_the_schedules_options_win_over_the_kinds() -> None:
    """Queue: the schedule's, else the kind's; the same for priority and time limits."""
    assert message(schedule(kind="agent")).options == {
        "queue": "agents",
        "priority": 3,
        "time_limit": 60,
        "soft_time_limit": 50,
    }
    own = message(schedule(kind="agent", options={"queue": "slow", "priority": 9, "expires": 30})).options
    assert (own["queue"], own["priority"], own["expires"], own["time_limit"]) == ("slow", 9, 30, 60)


@pytest.mark.parametrize("own", [{"exchange": "x"}, {"routing_key": "r"}])
def test_an_exchange_of_its_own_leaves_out_the_kinds_queue(own: dict[str, str]) -> None:
    """Both together would be a contradiction that kombu resolves in favour of the queue."""
    assert "queue" not in message(schedule(kind="agent", options=own)).options


def test_the_kind_task_may_have_a_queue() -> None:
    """``parrot_kinds = {"task": {"queue": …}}``."""
    made = message(schedule(), kinds={"task": Kind(name="task", queue="plain", declared=False)})
    assert (made.task, made.options) == ("reports.build", {"queue": "plain"})


def test_headers_say_which_fire_it_is() -> None:
    """And keep the user's own; ours cannot be overridden."""
    made = message(schedule(options={"headers": {"trace": "t-1", "parrot": "forged", "celery_beat_task": False}}))
    fire_id = NAMESPACE.fire_id(FireKey("id-1", DUE))
    assert made.headers == {
        "trace": "t-1",
        "periodic_task_name": "nightly",
        "celery_beat_task": True,
        "parrot": {
            "scheduler": "shop",
            "schedule_id": "id-1",
            "name": "nightly",
            "fire_id": fire_id,
            "due_at": "2026-05-01T12:00:00+00:00",
            "origin": "schedule",
            "kind": "task",
            "attempt": 1,
            "deadline": None,
        },
    }
    assert "headers" not in made.options


def test_a_message_of_a_fire_that_holds_limits_says_so() -> None:
    """And how it is sent again with the arguments that it was asked for with, if all is forgotten."""
    override = '{"args": [7]}'
    assert message(schedule(), limits=True).headers["parrot"]["limits"] is True
    assert message(schedule(), limits=True, override=override).headers["parrot"]["override"] == override
    assert not {"limits", "override"} & message(schedule(), override=override).headers["parrot"].keys()


def test_the_task_id_is_the_fires_and_later_attempts_differ() -> None:
    """Whatever the zone the due time was written in; workers drop an id that they saw end."""
    fire_id = NAMESPACE.fire_id(FireKey("id-1", DUE))
    elsewhere = FireKey("id-1", DUE.astimezone(timezone(timedelta(hours=5))))
    assert message(schedule()).task_id == fire_id
    assert message(schedule(), key=elsewhere).task_id == fire_id
    assert message(schedule(), attempt=2).task_id == f"{fire_id}:2"


def test_a_deadline_and_a_nonce_travel_in_the_header() -> None:
    """A run-now of the same instant is another fire."""
    key = FireKey("id-1", DUE, "n1")
    made = message(schedule(), key=key, origin=Origin.RUN_NOW, deadline=DUE + timedelta(minutes=15))
    header = made.headers["parrot"]
    assert (header["nonce"], header["origin"], header["deadline"]) == ("n1", "run_now", "2026-05-01T12:15:00+00:00")
    assert made.task_id != message(schedule()).task_id


def test_lazy_arguments_are_evaluated_for_each_message() -> None:
    """At the moment of sending, not before."""
    calls: list[str] = []

    def evaluate(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        calls.append("called")
        return (*args, len(calls)), kwargs

    router = Router(NAMESPACE, {}, evaluate)
    assert calls == []
    made = [router.message(schedule(args=("a",)), FireKey("id-1", DUE), origin=Origin.SCHEDULE) for _ in range(2)]
    assert [one.args for one in made] == [("a", 1), ("a", 2)]


def test_kinds_match_exactly() -> None:
    """No wildcard, no default, no prefix; ``task`` is always routed."""
    router = Router(NAMESPACE, {"agent": AGENT})
    assert router.routed == {"task", "agent"}
    assert router.kind("agent") is AGENT
    assert [router.kind(name) for name in ("agents", "Agent", "*", "")] == [None] * 4


def test_a_declared_kind_runs_under_its_threshold() -> None:
    """Whatever the schedule's options say; Celery's ``expires`` is sent only where somebody set it."""
    made = message(schedule(kind="plain", options={"time_limit": 9999}), kinds={"plain": Kind(name="plain", task="t")})
    assert made.options == {"time_limit": 895.0}


def test_a_tasks_own_smaller_limit_is_kept_where_the_beat_knows_the_task() -> None:
    kinds = {"plain": Kind(name="plain", task="t")}
    router = Router(NAMESPACE, kinds, of_task=lambda name: {"time_limit": 30} if name == "t" else {})
    made = router.message(schedule(kind="plain"), FireKey("id-1", DUE), origin=Origin.SCHEDULE)
    assert made.options == {"time_limit": 30}
