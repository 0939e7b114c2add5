"""The pure decisions of the SQL store."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.database.types import EARLIEST
from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.schedule import Policy
from celery_parrot.planning import following, just_before, sending_at, trigger_of
from celery_parrot.protocols.ledger import Carried
from celery_parrot.stores.sql.advance import _State, judge
from celery_parrot.stores.sql.marks import OLDEST_CREATION, initial_mark, undecided
from celery_parrot.stores.sql.outcomes import in_flight_skip
from celery_parrot.stores.sql.record import ends, supersedes
from celery_parrot.stores.sql.triggers import create_triggers, trigger_names
from celery_parrot.testing.conformance.schedule_store import make

NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)
MARK = NOW - timedelta(minutes=1)
MICRO = timedelta(microseconds=1)

# --- judge ---

PLAN = Plan(schedule_id="s", name="s", kind="task", expected_mark=MARK, new_mark=NOW, expected_version=3, store="db")
STATE = _State(version=3, enabled=True, disabled_by=None, last_due=MARK, auto_count=0)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.COMMITTED),
        ({"last_due": MARK + MICRO}, Verdict.MOVED),
        ({"last_due": MARK - MICRO}, Verdict.MOVED),
        ({"last_due": None}, Verdict.MOVED),
        ({"version": 4}, Verdict.MOVED),
        ({"enabled": False}, Verdict.HELD),
        ({"disabled_by": "person"}, Verdict.HELD),
        ({"disabled_by": "failures", "version": 4}, Verdict.HELD),
    ],
)
def test_judge(changes: dict[str, Any], verdict: Verdict) -> None:
    """Mark, version and enabled are all still as planned, or nothing moves."""
    state = _State(**{**{name: getattr(STATE, name) for name in _State.__slots__}, **changes})
    assert judge(state, PLAN) is verdict


def test_judge_of_a_row_that_is_gone_and_of_a_plan_without_version() -> None:
    """The first is unknown; the second does not compare versions."""
    assert judge(None, PLAN) is Verdict.UNKNOWN
    assert judge(STATE, replace(PLAN, expected_version=None)) is Verdict.COMMITTED


# --- marks ---


def mark_of(created: datetime | None, next_run: datetime | None = None, **changes: Any) -> datetime:
    """The first mark of a schedule that was inserted now."""
    schedule = make("a", created_at=created, **changes)
    return initial_mark(schedule, trigger_of(schedule), inserted_at=NOW, next_run=next_run)


def test_the_first_mark_is_the_creation() -> None:
    """Also a little in the past or the future; unknown, it is the insert; long ago, it was carried over."""
    for created in (NOW, NOW - timedelta(days=2), NOW + timedelta(hours=1)):
        assert mark_of(created) == created
    assert mark_of(None) == NOW
    assert mark_of(NOW - OLDEST_CREATION - MICRO) == NOW
    assert mark_of(EARLIEST) == NOW


def test_a_given_next_run_is_the_first_due_time() -> None:
    """Whether it is to come or was; not if it is from another age."""
    for given in (NOW + timedelta(hours=1), NOW - timedelta(hours=1)):
        assert mark_of(NOW, given) == given - MICRO
    assert mark_of(NOW, EARLIEST) == NOW


def test_a_given_next_run_may_include_the_jitter() -> None:
    """As another store of ours would write it."""
    schedule = make("a", created_at=NOW, policy=Policy(jitter=50.0))
    trigger = trigger_of(schedule)
    due_at = NOW.replace(second=0) + timedelta(minutes=5)
    mark = mark_of(NOW, sending_at(schedule, trigger, due_at), policy=Policy(jitter=50.0))
    assert trigger.next_after(mark) == due_at


def test_a_one_shot_before_its_creation_still_has_its_instant() -> None:
    """The planner says whether it is too late."""
    instant = NOW - timedelta(hours=2)
    config = {"run_date": instant.isoformat()}
    assert mark_of(NOW, schedule_type="once", schedule_config=config) == instant - MICRO
    assert mark_of(NOW, schedule_type="once", schedule_config={}) == NOW - MICRO
    later = {"run_date": (NOW + timedelta(hours=1)).isoformat()}
    assert mark_of(NOW, schedule_type="once", schedule_config=later) == NOW
    assert just_before(EARLIEST) == EARLIEST


def test_following() -> None:
    """Nothing for a disabled one, nor once max_fires is used up."""
    schedule = make("a", policy=Policy(max_fires=2))
    trigger = trigger_of(schedule)
    assert following(schedule, trigger, NOW, 1) == NOW.replace(second=0) + timedelta(minutes=1)
    assert following(schedule, trigger, NOW, 2) is None
    assert following(replace(schedule, enabled=False), trigger, NOW, 0) is None


def test_undecided() -> None:
    """First, last and count, the end included, cut where told."""
    trigger = trigger_of(make("a"))
    start = NOW.replace(second=0)
    minute = timedelta(minutes=1)
    assert undecided(trigger, start, start + 5 * minute, 99) == ([start + minute, start + 5 * minute], 5, False)
    assert undecided(trigger, start, start + 5 * minute, 3) == ([start + minute, start + 3 * minute], 3, True)
    assert undecided(trigger, start, start + 5 * minute, 5)[2] is False
    assert undecided(trigger, start, start, 9) == ([], 0, False)


# --- record ---


def told(status: Status, serial: int, **fields: Any) -> Carried:
    """What a coordinator tells."""
    record = FireRecord(
        fire_id="f", key=FireKey("s", NOW), name="s", kind="task", origin=Origin.SCHEDULE, status=status, **fields
    )
    return Carried(record=record, serial=serial)


def kept(status: Status, serial: int, attempt: int = 1) -> dict[str, Any]:
    """What the row has."""
    return {
        "status": str(status),
        "serial": serial,
        "attempt": attempt,
        "committed_at": NOW,
        "late_result": None,
        "sent_at": None,
        "delivery": json.dumps({"success": noted("retrying", 2)}),
    }


def noted(status: str, tries: int) -> dict[str, Any]:
    """What is told of a delivery."""
    return {"status": status, "tries": tries}


@pytest.mark.parametrize(
    ("row", "item", "news"),
    [
        (None, told(Status.SENT, 1), True),
        (kept(Status.PENDING, 0), told(Status.SENT, 1), True),
        (kept(Status.SENT, 2), told(Status.SENT, 2), False),
        (kept(Status.RUNNING, 3), told(Status.SENT, 2), False),
        (kept(Status.RUNNING, 9), told(Status.SUCCESS, 2), True),
        (kept(Status.SUCCESS, 3), told(Status.RUNNING, 9), False),
        (kept(Status.SUCCESS, 3), told(Status.ERROR, 9), False),
        (kept(Status.UNKNOWN, 3), told(Status.RUNNING, 4), True),
        (kept(Status.UNKNOWN, 3), told(Status.UNKNOWN, 3), False),
        (kept(Status.ABANDONED, 3), told(Status.SENT, 4, attempt=2), True),
        (kept(Status.RUNNING, 3, attempt=2), told(Status.ABANDONED, 9, attempt=1), False),
        (kept(Status.ABANDONED, 3), told(Status.ABANDONED, 4, late_result="x"), True),
        (kept(Status.ABANDONED, 3), told(Status.ABANDONED, 4), False),
        (kept(Status.SUCCESS, 3), told(Status.SUCCESS, 4, delivery={"success": noted("retrying", 2)}), False),
        (kept(Status.SUCCESS, 3), told(Status.SUCCESS, 4, delivery={"success": noted("retrying", 1)}), False),
        (kept(Status.SUCCESS, 3), told(Status.SUCCESS, 4, delivery={"success": noted("delivered", 3)}), True),
        (kept(Status.SUCCESS, 3), told(Status.SUCCESS, 4, delivery={"alert": noted("retrying", 1)}), True),
        (kept(Status.SUCCESS, 3), told(Status.ERROR, 4, delivery={"success": noted("delivered", 3)}), False),
    ],
)
def test_what_is_news(row: dict[str, Any] | None, item: Carried, news: bool) -> None:
    """Later steps are, repeats are not, and an outcome gives way to none but a later attempt."""
    assert supersedes(item, row) is news


@pytest.mark.parametrize(
    ("row", "item", "counted"),
    [
        (None, told(Status.SUCCESS, 1), True),
        (kept(Status.RUNNING, 1), told(Status.ERROR, 2), True),
        (kept(Status.RUNNING, 1), told(Status.RUNNING, 2), False),
        (kept(Status.ABANDONED, 1), told(Status.ABANDONED, 2, late_result="x"), False),
        (kept(Status.ABANDONED, 1), told(Status.SUCCESS, 2, attempt=2), True),
        (kept(Status.UNKNOWN, 1), told(Status.SUCCESS, 2), True),
    ],
)
def test_which_step_counts_as_an_outcome(row: dict[str, Any] | None, item: Carried, counted: bool) -> None:
    """Each outcome once."""
    assert ends(item.record, row) is counted


@pytest.mark.parametrize(
    ("fields", "skip"),
    [
        ({"output": '{"in_flight_skip": true, "held_by": "x"}'}, True),
        ({"output": '{"in_flight_skip": true}', "sent_at": NOW}, False),
        ({"output": '{"in_flight_skip": false}'}, False),
        ({"output": "in_flight_skip"}, False),
        ({"output": None}, False),
    ],
)
def test_a_skip_for_a_busy_limit(fields: dict[str, Any], skip: bool) -> None:
    """Only a fire that was never sent can be one, whatever a task returns."""
    assert in_flight_skip(told(Status.SUCCESS, 1, **fields).record) is skip


# --- triggers ---


@pytest.mark.parametrize("dialect", ["postgresql", "mysql", "mariadb", "sqlite"])
def test_every_trigger_is_made(dialect: str) -> None:
    """By its name, in place of an earlier one."""
    statements: list[str] = []
    create_triggers(dialect, None, statements.append)
    for name in trigger_names(dialect):
        assert any(s.startswith("DROP TRIGGER IF EXISTS") and name in s for s in statements)
        assert any(s.startswith("CREATE TRIGGER") and name in s for s in statements)
