"""The verbs and their rules."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import celery_parrot
from celery_parrot import Conflict, InvalidSchedule, ParrotError, ScheduleExists, ScheduleNotFound
from celery_parrot.client import CodeDefinitions, Rules, Schedules
from celery_parrot.client.rules import MOST_CHARACTERS
from celery_parrot.model.fire import Status
from celery_parrot.protocols import Change, Written
from tests.unit.client.conftest import World


def fields(name: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "target": "t.known", "schedule_type": "interval", "schedule_config": {"minutes": 5}, **changes,
    }  # fmt: skip


NOON = datetime(2090, 1, 1, 12)  # noqa: DTZ001 - a reading in the schedule's zone


# --- create ---


def test_what_is_created_has_every_field_as_an_attribute(world: World) -> None:
    made = world.client.create(**fields(args=[1], kwargs={"a": {"b": 2}}, options={"queue": "q"}, prompt="hello"))
    assert (made.name, made.store, made.kind, made.target) == ("a", "db", "task", "t.known")
    assert (made.args, made.kwargs, made.options, made.prompt) == ((1,), {"a": {"b": 2}}, {"queue": "q"}, "hello")
    assert (made.timezone, made.missed, made.misfire_grace, made.enabled) == ("Europe/Madrid", "coalesce", 300.0, True)
    assert (made.version, made.state, made.run_state.run_count) == (1, "active", 0)
    assert made.next_run is not None
    assert made.created_at is not None
    assert made.created_at < made.next_run <= made.created_at + timedelta(minutes=5)
    assert world.client.get("a") == made == world.client.get(made.schedule_id)
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]
    assert world.warned == []


def test_every_field_may_be_given(world: World) -> None:
    given = fields(
        kind="agent", target="weather", method_name="ask", prompt="p", target_id="7", tenant="acme", timezone="UTC",
        enabled=False, missed="catch_up", misfire_grace=None, catch_up_limit=7, jitter=2.5,
        start_at="2026-05-01T09:00:00", end_at=datetime(2027, 1, 1, tzinfo=UTC), max_fires=9, dst_gap="skip",
        dst_fold="last", overlap="buffer_one", exclusion_group="gpu", recover=True,
    )  # fmt: skip
    made = world.client.create(**given)
    for name, value in given.items():
        expected = {"start_at": datetime(2026, 5, 1, 9, tzinfo=UTC)}.get(name, value)
        assert getattr(made, name) == expected, name
    assert made.state == "paused"


def test_the_grace_of_a_kind_is_the_default_of_its_schedules(world: World) -> None:
    assert world.client.create(**fields(kind="agent")).misfire_grace == 20.0


def test_an_instant_in_the_config_may_be_a_datetime(world: World) -> None:
    made = world.client.create(**fields(schedule_type="once", schedule_config={"run_date": NOON}))
    assert made.next_run == datetime(2090, 1, 1, 11, tzinfo=UTC)  # noon in Madrid


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "n" * 256}, "name"),
        ({"target": None}, "target"),
        ({"kind": 3}, "kind"),
        ({"kind": " "}, "kind"),
        ({"schedule_type": "monthy"}, "schedule_type"),
        ({"schedule_config": {}}, "seconds"),
        ({"schedule_type": "cron", "schedule_config": {"expr": "monkey"}}, "expr"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"timezone": "Mars/Base", "schedule_config": {"minutes": 5, "tz": "UTC"}}, "timezone"),
        ({"args": "abc"}, "args"),
        ({"args": [object()]}, "args"),
        ({"kwargs": {"a": {1, 2}}}, "kwargs"),
        ({"kwargs": {"a": float("nan")}}, "kwargs"),
        ({"kwargs": {1: 2}}, "kwargs"),
        ({"options": {"expires": datetime(2026, 1, 1, tzinfo=UTC)}}, "options"),
        ({"prompt": "x" * (MOST_CHARACTERS + 1)}, "args"),
        ({"misfire_grace": 86401}, "misfire_grace"),
        ({"missed": "never"}, "missed"),
        ({"start_at": "2026-05-02", "end_at": "2026-05-01"}, "end_at"),
        ({"overlap": "sometimes"}, "overlap"),
        ({"exclusion_group": ""}, "exclusion_group"),
        ({"exclusion_group": "g" * 256}, "exclusion_group"),
        ({"exclusion_group": "g\n"}, "exclusion_group"),
        ({"recover": "yes"}, "recover"),
        ({"callbacks": [{}]}, "callbacks[0].type"),
        ({"store": "code"}, "store"),
        ({"store": "redis"}, "store"),
        ({"qeue": "x"}, "qeue"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(world: World, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        world.client.create(**fields(**changes))
    assert caught.value.field == field
    assert len(str(caught.value)) < 500
    assert world.client.find(store="db") == ()


def test_names_are_unique_across_the_stores(world: World) -> None:
    world.client.create(**fields())
    with pytest.raises(ScheduleExists, match="in the db store"):
        world.client.create(**fields())
    with pytest.raises(ScheduleExists, match="in the code store"):
        world.client.create(**fields("nightly"))


def test_many_are_all_checked_before_one_is_written(world: World) -> None:
    made = world.client.create_many(fields(f"n{number:03}") for number in range(600))
    assert [one.name for one in made] == [f"n{number:03}" for number in range(600)]
    for bad in (fields("x", target=None), fields("n001"), fields("y")):
        with pytest.raises(ParrotError):
            world.client.create_many([fields("y"), bad])
        with pytest.raises(ScheduleNotFound):
            world.client.get("y")


def test_what_is_odd_is_said_and_works(world: World) -> None:
    world.client.create(**fields("a", target="t.unknown", options={"task_id": "x"}))
    world.client.create(**fields("b", kind="robot"))
    assert [sentence.partition(";")[0] for sentence in world.warned] == [
        "a: no task 't.unknown' is known here",
        "a: options task_id have no effect",
        "b: kind 'robot' is not in parrot_kinds here",
    ]
    world.warned.clear()
    world.client.update("a", prompt="something else")
    assert world.warned == []
    world.client.create_many(fields(f"c{number}", kind="robot") for number in range(50))
    assert len(world.warned) == 11
    assert world.warned[-1] == "and 40 more like these"


def test_without_a_store_a_new_schedule_has_nowhere_to_go(world: World) -> None:
    client = Schedules(
        code=CodeDefinitions(lambda: world.code, world.coordinator, world.clock), stores={}, rules=Rules(),
        clock=world.clock, why_none="set parrot_database_url",
    )  # fmt: skip
    with pytest.raises(ParrotError, match="set parrot_database_url"):
        client.create(**fields())
    assert client.stores == ("code",)
    assert client.get("nightly").store == "code"


# --- read ---


def test_a_slip_is_answered_with_the_closest_names(world: World) -> None:
    world.client.create_many(fields(name) for name in ("daily-report", "weekly-report", "cleanup", 'Über 🦜 "x"'))
    for slip, right in {"dialy-report": "daily-report", "nihgtly": "nightly", "CLEANUP": "cleanup"}.items():
        with pytest.raises(ScheduleNotFound, match="did you mean") as caught:
            world.client.get(slip)
        assert caught.value.closest[0] == right
    assert world.client.get('Über 🦜 "x"').target == "t.known"
    with pytest.raises(ScheduleNotFound) as caught:
        world.client.get("?")
    assert caught.value.closest == ()


def test_pages_go_through_all_stores_by_name(world: World) -> None:
    world.client.create_many(fields(name) for name in ("alpha", "omega", "zulu"))
    names: list[str] = []
    after = ""
    while True:
        page = world.client.find(limit=2, after=after)
        assert len(page) <= 2
        names += [view.name for view in page]
        after = page.after
        if not after:
            break
    assert names == ["alpha", "nightly", "off", "omega", "wrong", "zulu"]
    assert [view.name for view in world.client.find(store="db")] == ["alpha", "omega", "zulu"]
    assert [view.name for view in world.client.find(text="OME")] == ["omega"]
    assert [view.name for view in world.client.find(state="broken")] == ["wrong"]
    assert [view.name for view in world.client.find(state="paused")] == ["off"]
    assert world.client.find(kind="agent") == ()
    for wrong in ({"state": "asleep"}, {"store": "shelf"}):
        with pytest.raises(InvalidSchedule):
            world.client.find(**wrong)  # type: ignore[arg-type]


def test_a_page_never_ends_between_two_of_one_name(world: World) -> None:
    """Another program may have written the second; a cursor that is a name would lose it."""
    world.client.create(**fields("free"))
    stored = world.db.get(["free"])[0]
    assert stored is not None
    assert stored.schedule is not None
    world.db.replace([Change(schedule=replace(stored.schedule, name="nightly"))])
    page = world.client.find(limit=1)
    assert [(view.name, view.store) for view in page] == [("nightly", "code"), ("nightly", "db")]
    assert page.after == "nightly"


def test_coming_due_times(world: World) -> None:
    world.client.create(**fields(schedule_config={"hours": 1}, max_fires=2))
    first, second = world.client.next("a", 5)
    assert second - first == timedelta(hours=1)
    assert first > world.clock.now()
    assert len(world.client.next("nightly", 3)) == 3
    with pytest.raises(InvalidSchedule, match="no such task"):
        world.client.next("wrong")
    assert world.client.describe(world.client.get("a")) == world.client.trigger("a").describe()
    assert world.client.describe(world.client.get("wrong")) is None


def test_due_times_of_what_nobody_saved(world: World) -> None:
    """An edited schedule is previewed as it will be: with its id, from which some due times follow."""
    made = world.client.create(**fields(schedule_type="cron", schedule_config={"expr": "H H * * *"}))
    drawn = world.client.trigger_for(
        schedule_id=made.schedule_id, schedule_type="cron", schedule_config={"expr": "H H * * *"}
    )
    assert drawn.next_after(world.clock.now()) == made.next_run
    with pytest.raises(InvalidSchedule, match="minute"):
        world.client.trigger_for(schedule_type="cron", schedule_config={"expr": "61 * * * *"})


def test_a_broken_schedule_is_shown_and_says_why(world: World) -> None:
    broken = world.client.get("wrong")
    assert (broken.state, broken.broken_reason, broken.next_run) == ("broken", "no such task", None)


# --- change ---


def test_an_update_changes_what_is_given_and_nothing_else(world: World) -> None:
    made = world.client.create(**fields(kwargs={"a": 1}, jitter=3.0))
    after = world.client.update("a", kwargs={"a": 2})
    assert after.version == made.version + 1
    assert (after.kwargs, after.jitter, after.next_run) == ({"a": 2}, 3.0, made.next_run)
    renamed = world.client.update(made.schedule_id, name="b")
    assert (renamed.schedule_id, renamed.name) == (made.schedule_id, "b")
    with pytest.raises(ScheduleExists):
        world.client.update("b", name="nightly")


def test_a_stale_version_is_a_conflict_and_changes_nothing(world: World) -> None:
    made = world.client.create(**fields())
    world.client.update("a", version=made.version, prompt="mine")
    with pytest.raises(Conflict, match="no longer at version 1, it is 2 now") as caught:
        world.client.update("a", version=made.version, prompt="yours")
    assert (caught.value.version, caught.value.current) == (1, 2)
    assert world.client.get("a").prompt == "mine"
    for verb in (world.client.delete, world.client.pause, world.client.resume):
        with pytest.raises(Conflict):
            verb("a", version=1)


def test_without_a_version_another_s_change_is_not_undone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both read version 1; the second to write puts its field on top of what the first wrote."""
    world.client.create(**fields())
    real = world.db.replace
    other = Change(schedule=replace(_schedule(world), prompt="the other's"))

    def replace_late(changes: Any) -> list[tuple[Written, int]]:
        monkeypatch.setattr(world.db, "replace", real)
        real([other])
        return list(real(changes))

    monkeypatch.setattr(world.db, "replace", replace_late)
    after = world.client.update("a", kwargs={"mine": 1})
    assert (after.prompt, after.kwargs) == ("the other's", {"mine": 1})


def _schedule(world: World) -> Any:
    stored = world.db.get(["a"])[0]
    assert stored is not None
    return stored.schedule


@pytest.mark.parametrize("changes", [{"store": "redis"}, {"schedule_id": "x"}, {"timezone": "x"}, {"nmae": "x"}])
def test_an_update_is_checked_as_a_new_one(world: World, changes: dict[str, Any]) -> None:
    made = world.client.create(**fields())
    with pytest.raises(InvalidSchedule):
        world.client.update("a", **changes)
    assert world.client.get("a") == made


def test_pausing_keeps_who_and_why(world: World) -> None:
    world.client.create(**fields())
    assert world.client.pause("a", note="holidays", actor="ann").note == "ann: holidays"
    assert world.client.get("a").state == "paused"
    resumed = world.client.resume("a")
    assert (resumed.state, resumed.note) == ("active", None)
    assert world.client.pause("a", actor="bob").note == "bob"


def test_deleting(world: World) -> None:
    made = world.client.create(**fields())
    world.client.delete("a")
    for verb in (world.client.get, world.client.delete, world.client.pause, world.client.resume, world.client.fires):
        with pytest.raises(ScheduleNotFound):
            verb("a")
    again = world.client.create(**fields())
    assert again.schedule_id != made.schedule_id


# --- schedules of the code ---


def test_code_is_changed_in_the_code(world: World) -> None:
    with pytest.raises(ParrotError, match="defined in the code and changed there"):
        world.client.update("nightly", kwargs={})
    with pytest.raises(ParrotError, match="pause it instead"):
        world.client.delete("nightly")


@pytest.mark.parametrize("beat_first", [True, False])
def test_a_schedule_of_the_code_is_paused_and_resumed(world: World, beat_first: bool) -> None:
    """Whether or not a beat has seen it. What came meanwhile is one entry, with its count."""
    if beat_first:
        world.beat()
    paused = world.client.pause("nightly", note="why", actor="ann")
    assert (paused.state, paused.note) == ("paused", "ann: why")
    assert paused.next_run is not None
    world.clock.advance(600)
    resumed = world.client.resume("nightly")
    assert (resumed.state, resumed.note) == ("active", None)
    assert resumed.next_run is not None
    assert resumed.next_run > world.clock.now()
    (entry,) = world.client.fires("nightly")
    assert (entry.status, entry.reason, entry.count) == (Status.SKIPPED, "paused", 10)
    world.client.resume("nightly")
    assert len(world.client.fires("nightly")) == 1


def test_resuming_what_was_never_paused_or_seen_changes_nothing(world: World) -> None:
    assert world.client.resume("nightly").state == "active"
    assert world.client.fires("nightly") == []


def test_fires_of_a_schedule_that_left_the_code_are_found_by_its_name(world: World) -> None:
    world.client.pause("nightly")
    world.clock.advance(100)
    world.client.resume("nightly")
    world.code.remove("nightly")
    assert len(world.client.fires("nightly")) == 1
    with pytest.raises(ScheduleNotFound):
        world.client.get("nightly")


# --- errors ---


@pytest.mark.parametrize(
    "error", [ScheduleNotFound("a", ("b", "c")), ScheduleExists("a", "db"), Conflict("a", 1, 2), Conflict("a", 1)]
)
def test_errors_survive_a_trip_between_processes(error: ParrotError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert getattr(celery_parrot, type(error).__name__) is type(error)
