"""The code store: due when it is, what it costs, marks, held and broken schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.model.schedule import Policy, Schedule
from celery_parrot.planning import sending_at
from celery_parrot.protocols import Due, Mark, Registration, ScheduleStore
from celery_parrot.stores.memory import CodeStore, Definition, fingerprint
from celery_parrot.triggers import Trigger, build

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
TASK = frozenset({"task"})


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@dataclass
class Counting:
    """A trigger that counts how often it is asked, and may raise."""

    inner: Trigger
    asked: int = 0
    fails: list[Exception] = field(default_factory=list)

    deterministic = True

    def next_after(self, t: datetime) -> datetime | None:
        self.asked += 1
        if self.fails:
            raise self.fails[0]
        return self.inner.next_after(t)

    def latest_at(self, t: datetime) -> datetime | None:
        return self.inner.latest_at(t)

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        return self.inner.to_config()

    def describe(self) -> str:
        return self.inner.describe()


def every(seconds: float) -> Counting:
    """Due at T0 and every ``seconds`` from there."""
    return Counting(build("interval", {"seconds": seconds, "offset": T0.timestamp() % seconds}))


def definition(name: str, trigger: Trigger | None = None, *, seconds: float = 10, **fields: Any) -> Definition:
    policy = Policy(jitter=fields.pop("jitter", 0.0))
    extra = {key: fields.pop(key) for key in ("anchored", "initial", "when", "broken") if key in fields}
    schedule = Schedule(
        schedule_id=name, name=name, target="t", schedule_type="interval", schedule_config={}, policy=policy, **fields
    )
    if trigger is None and "broken" not in extra:
        trigger = every(seconds)
    return Definition(schedule=schedule, trigger=trigger, **extra)


def known(*definitions: Definition, mark: datetime = T0) -> CodeStore:
    """A store whose marks are all told."""
    store = CodeStore(definitions)
    store.learn(Mark(schedule_id=one.schedule_id, last_due=mark) for one in definitions)
    return store


def ids(found: list[Due] | tuple[Due, ...] | Any) -> list[str]:
    return [due.schedule.schedule_id for due in found]


def test_it_is_a_schedule_store() -> None:
    store: ScheduleStore = CodeStore()
    assert store.name == "code"
    assert store.next_due(TASK) is None
    assert list(store.due(T0, TASK, 10)) == []


# --- due ---


def test_due_from_the_sending_instant_on_earliest_first() -> None:
    store = known(definition("slow", seconds=20), definition("fast", seconds=10), definition("never", seconds=3600))
    assert ids(store.due(at(9.999), TASK, 10)) == []
    assert ids(store.due(at(10), TASK, 10)) == ["fast"]
    assert ids(store.due(at(20), TASK, 10)) == ["fast", "slow"]
    assert store.next_due(TASK) == at(10)


def test_what_is_due_stays_due_until_its_mark_moves() -> None:
    store = known(definition("a"))
    assert ids(store.due(at(10), TASK, 10)) == ["a"]
    (due,) = store.due(at(10), TASK, 10)
    assert due.mark == T0
    store.learn([Mark(schedule_id="a", last_due=at(10))])
    assert ids(store.due(at(10), TASK, 10)) == []
    assert store.next_due(TASK) == at(20)


def test_the_limit_takes_the_earliest() -> None:
    store = known(*[definition(f"s{n}", seconds=60 + n) for n in range(9)])
    assert ids(store.due(at(3600), TASK, 3)) == ["s0", "s1", "s2"]
    assert list(store.due(at(3600), TASK, 0)) == []


def test_kinds_match_exactly_and_no_kinds_mean_nothing() -> None:
    store = known(definition("a"), definition("b", kind="agent"), definition("c", kind="agents"))
    assert ids(store.due(at(10), {"agent"}, 10)) == ["b"]
    assert sorted(ids(store.due(at(10), {"agent", "task"}, 10))) == ["a", "b"]
    assert list(store.due(at(10), (), 10)) == []
    assert store.next_due(()) is None
    assert sorted(ids(store.due_elsewhere(at(10), {"agent"}, 10))) == ["a", "c"]
    assert list(store.due_elsewhere(at(10), {"agent", "agents", "task"}, 10)) == []


def test_jitter_is_in_the_sending_instant_not_in_the_mark() -> None:
    made = definition("a", jitter=8.0, seconds=10)
    store = known(made)
    assert made.trigger is not None
    instant = sending_at(made.schedule, made.trigger, at(10))
    assert at(10) < instant < at(18)
    assert store.next_due(TASK) == instant
    assert ids(store.due(instant - timedelta(microseconds=1), TASK, 10)) == []
    (due,) = store.due(instant, TASK, 10)
    assert due.mark == T0


def test_a_disabled_schedule_is_never_due_but_is_known_and_registered() -> None:
    store = CodeStore([definition("a", enabled=False)])
    assert [one.schedule_id for one in store.registrations()] == ["a"]
    store.learn([Mark(schedule_id="a", last_due=T0)])
    assert ids(store.due(at(99), TASK, 10)) == []
    assert store.next_due(TASK) is None
    assert store.definitions(["a"])["a"].schedule.enabled is False


def test_a_tick_costs_by_what_is_due() -> None:
    """10 000 schedules of which one is due: one trigger is asked, however often the store is."""
    triggers = {n: every(3600 + n) for n in range(10_000)}
    store = known(*[definition(f"s{n}", trigger) for n, trigger in triggers.items()], definition("due", seconds=10))
    before = sum(trigger.asked for trigger in triggers.values())
    for _ in range(50):
        assert ids(store.due(at(10), TASK, 500)) == ["due"]
        assert store.next_due(TASK) == at(10)
    store.learn([Mark(schedule_id="due", last_due=at(10))])
    assert sum(trigger.asked for trigger in triggers.values()) == before


def test_a_schedule_that_has_no_more_due_times_is_out_of_the_way() -> None:
    store = known(definition("once", build("once", {"run_date": at(10).isoformat()})))
    assert ids(store.due(at(10), TASK, 10)) == ["once"]
    store.learn([Mark(schedule_id="once", last_due=at(10))])
    assert store.next_due(TASK) is None
    assert [schedule.name for schedule in store.schedules] == ["once"]


# --- marks ---


def test_nothing_is_due_before_its_mark_is_told() -> None:
    store = CodeStore([definition("a", when="w", initial=at(-1))])
    assert list(store.due(at(99), TASK, 10)) == []
    assert list(store.registrations()) == [Registration(schedule_id="a", when="w", initial=at(-1))]
    store.learn([Mark(schedule_id="a", last_due=T0), Mark(schedule_id="stranger", last_due=T0)])
    assert list(store.registrations()) == []
    assert ids(store.due(at(10), TASK, 10)) == ["a"]


def test_forgetting_marks_asks_for_all_with_what_was_known() -> None:
    store = known(definition("a", when="w"), definition("b", when="v"))
    store.learn([Mark(schedule_id="a", last_due=at(10))])
    store.forget_marks()
    assert list(store.due(at(99), TASK, 10)) == []
    assert {one.schedule_id: one.initial for one in store.registrations()} == {"a": at(10), "b": T0}
    store.learn([Mark(schedule_id="a", last_due=at(30))])
    assert ids(store.due(at(99), TASK, 10)) == ["a"]


def test_what_is_remembered_for_a_coordinator_that_forgot() -> None:
    store = CodeStore([definition("a", when="w"), definition("unknown")])
    store.learn([Mark(schedule_id="a", last_due=at(10), held="person")])
    registrations, marks = store.remembered()
    assert [one.schedule_id for one in registrations] == ["a"]
    assert list(marks) == [Mark(schedule_id="a", last_due=at(10), held="person")]


def test_a_held_schedule_is_not_due_and_is_asked_for_again_once_a_second() -> None:
    """That is how a resume on another beat is noticed, without a query for each tick."""
    store = CodeStore([definition("a")])
    store.learn([Mark(schedule_id="a", last_due=T0, held="person")])
    assert store.definitions(["a"])["a"].held == "person"
    assert store.next_due(TASK) is None
    assert list(store.due(at(20), TASK, 10)) == []
    assert list(store.registrations()) == []
    assert list(store.due(at(20.9), TASK, 10)) == []
    assert list(store.registrations()) == []
    assert list(store.due(at(21), TASK, 10)) == []
    assert [one.schedule_id for one in store.registrations()] == ["a"]
    store.learn([Mark(schedule_id="a", last_due=at(21))])
    assert ids(store.due(at(30), TASK, 10)) == ["a"]


def test_a_foreign_schedule_is_anchored_at_the_mark() -> None:
    anchors: list[datetime] = []

    def anchored(anchor: datetime) -> Trigger:
        anchors.append(anchor)
        return build("interval", {"seconds": 7, "offset": anchor.timestamp() % 7})

    store = known(definition("a", anchored=anchored), mark=at(3))
    assert anchors == [at(3)]
    assert store.next_due(TASK) == at(10)
    store.learn([Mark(schedule_id="a", last_due=at(10))])
    assert anchors[-1] == at(10)
    assert store.next_due(TASK) == at(17)


# --- replacing ---


def test_a_replaced_schedule_has_the_new_due_times_only() -> None:
    store = known(definition("a", seconds=10))
    store.put(definition("a", seconds=25))
    assert list(store.due(at(99), TASK, 10)) == []
    store.learn([Mark(schedule_id="a", last_due=T0)])
    assert store.next_due(TASK) == at(25)
    store.remove("a")
    assert store.next_due(TASK) is None
    assert dict(store.definitions(["a"])) == {}


# --- broken ---


@pytest.fixture
def told() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def tell(told: list[tuple[str, str]]) -> Callable[[Schedule, str], None]:
    return lambda schedule, reason: told.append((schedule.name, reason))


def test_a_broken_definition_is_kept_with_its_reason_and_stops_nobody(
    told: list[tuple[str, str]], tell: Callable[[Schedule, str], None]
) -> None:
    store = CodeStore([definition("bad", broken="no such cron"), definition("good")], on_broken=tell)
    store.learn([Mark(schedule_id="bad", last_due=T0), Mark(schedule_id="good", last_due=T0)])
    assert ids(store.due(at(10), TASK, 10)) == ["good"]
    assert store.broken == {"bad": "no such cron"}
    assert [schedule.name for schedule in store.schedules] == ["bad", "good"]
    assert [one.schedule_id for one in store.registrations()] == []
    assert told == [("bad", "no such cron")]


def test_a_trigger_that_raises_is_broken_said_once_tried_again_and_cleared(
    told: list[tuple[str, str]], tell: Callable[[Schedule, str], None]
) -> None:
    trigger = every(10)
    trigger.fails.append(RuntimeError("moody"))
    store = CodeStore([definition("bad", trigger), definition("good")], on_broken=tell)
    store.learn([Mark(schedule_id="bad", last_due=T0), Mark(schedule_id="good", last_due=T0)])
    assert store.broken == {"bad": "RuntimeError: moody"}
    for second in (10, 20, 70, 80, 130, 140):
        assert ids(store.due(at(second), TASK, 10)) == ["good"]
    assert told == [("bad", "RuntimeError: moody")]
    trigger.fails.clear()
    for second in (200, 260, 261):
        found = ids(store.due(at(second), TASK, 10))
    assert sorted(found) == ["bad", "good"]
    assert store.broken == {}


def test_replacing_mends_a_broken_one() -> None:
    store = CodeStore([definition("a", broken="typo")])
    store.put(definition("a"))
    assert store.broken == {}
    assert [one.schedule_id for one in store.registrations()] == ["a"]


# --- fingerprint ---


def test_the_fingerprint_ignores_order_and_memory_addresses() -> None:
    one = fingerprint("celery", {"a": 1, "repr": "<X object at 0x7f00>"}, timezone="UTC")
    two = fingerprint("celery", {"repr": "<X object at 0x8aff>", "a": 1}, timezone="UTC")
    assert one == two
    assert len(one) == 32
    assert one != fingerprint("celery", {"a": 1, "repr": "<X object at 0x7f00>"}, timezone="Europe/Madrid")
