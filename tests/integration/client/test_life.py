"""A schedule's life through the client, with a real beat, in each store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from celery_parrot import Conflict, ScheduleExists, ScheduleNotFound
from celery_parrot.model.fire import Status
from tests.integration.beat.conftest import Mailbox
from tests.integration.client.conftest import READY, World, due_times, next_with
from tests.support.waiting import stays, wait_until

Make = Callable[..., World]


@pytest.mark.parametrize("store", ["db", "redis"])
def test_create_edit_pause_resume_delete(make_world: Make, mail: Mailbox, store: str) -> None:
    world = make_world()
    beat = world.beat()
    beat.wait_for_log(READY)
    schedules = world.parrot.schedules

    made = world.create("north", store)
    assert (made.store, made.state, made.version) == (store, "active", 1)
    first = next_with(mail, store, word="north")
    headers = first.headers["parrot"]
    assert (headers["schedule_id"], headers["name"]) == (made.schedule_id, "north")
    assert due_times([first])[0] > made.created_at
    with pytest.raises(ScheduleExists, match=f"in the {store} store"):
        world.create("north", "db" if store == "redis" else "redis")

    edited = schedules.update("north", version=made.version, kwargs={"word": "south"})
    assert edited.version > made.version
    next_with(mail, store, word="south")
    with pytest.raises(Conflict):
        schedules.update("north", version=made.version, kwargs={})
    assert schedules.get("north").kwargs == {"word": "south"}

    paused = schedules.pause("north", note="stocktaking", actor="ann")
    assert (paused.state, paused.note) == ("paused", "ann: stocktaking")
    assert paused.next_run is not None
    wait_until(lambda: not mail.drain(store), "nothing more to arrive", interval=1.2)
    stays(lambda: not mail.drain(store), "silence while paused", 2.5)

    assert schedules.resume("north").state == "active"
    again = next_with(mail, store, word="south")

    def skipped() -> bool:
        return any((fire.status, fire.reason) == (Status.SKIPPED, "paused") for fire in schedules.fires("north"))

    wait_until(skipped, "the pause to be in the history")

    def sent() -> list[datetime]:
        return [fire.due_at for fire in schedules.fires("north") if fire.status is Status.SENT]

    # What a beat did reaches the database within a second.
    wait_until(lambda: due_times([again])[0] in sent(), "the fire to be in the history")
    assert len(sent()) == len(set(sent()))
    fires = [fire.due_at for fire in schedules.fires("north", limit=100)]
    assert fires == sorted(fires, reverse=True)

    schedules.delete("north")
    with pytest.raises(ScheduleNotFound):
        schedules.get("north")
    wait_until(lambda: not mail.drain(store), "nothing more to arrive", interval=1.2)
    assert schedules.fires(made.schedule_id), "the history stays"
    assert "Traceback" not in beat.text()


def test_a_schedule_of_the_code_is_paused_from_another_process(make_world: Make, mail: Mailbox) -> None:
    """It stays paused over a restart of the beat; resuming accounts for what was left out."""
    world = make_world()
    schedules = world.parrot.schedules
    assert schedules.pause("in code", note="before any beat").state == "paused"
    beat = world.beat()
    beat.wait_for_log(READY)
    stays(lambda: not mail.drain("code"), "silence", 1.5)
    assert beat.terminate() == 0
    beat.start()
    stays(lambda: not mail.drain("code"), "silence after a restart", 1.5)
    assert schedules.get("in code").note == "before any beat"

    assert schedules.resume("in code").state == "active"
    mail.take("code")
    (pause,) = [fire for fire in schedules.fires("in code") if fire.status is Status.SKIPPED]
    assert pause.reason == "paused"
    assert pause.count >= 3


def test_one_beat_runs_the_schedules_of_all_three_stores(make_world: Make, mail: Mailbox) -> None:
    """And the command line shows them as one list."""
    world = make_world(parrot_database_schema="navigator", parrot_kinds={"agent": {"task": "t.agent", "queue": "ai"}})
    world.create("in db", "db")
    world.create("in redis", "redis")
    world.create("an agent", "db", kind="agent", target="weather", prompt="how is it?", options={})
    world.beat().wait_for_log(READY)
    for store in ("code", "db", "redis"):
        mail.take(store)
    agent = mail.take("ai")
    assert agent.headers["task"] == "t.agent"
    assert (agent.payload[0], agent.payload[1]["prompt"]) == (["weather"], "how is it?")

    listed = {each["name"]: each for each in world.json("list")}
    assert {name: each["store"] for name, each in listed.items()} == {
        "an agent": "db", "in code": "code", "in db": "db", "in redis": "redis",
    }  # fmt: skip
    wait_until(
        lambda: {one["run_state"]["run_count"] > 0 for one in world.json("list")} == {True}, "every run to be counted"
    )
    assert [each["name"] for each in world.json("list", "--store", "db")] == ["an agent", "in db"]
    assert [each["name"] for each in world.json("list", "--kind", "agent")] == ["an agent"]
    assert world.json("list", "--state", "paused") == []
    page = world.ask("list", "--limit", "2")
    assert [line.split("  ")[0] for line in page.stdout.splitlines()] == ["name", "an agent", "in code"]
    assert "--after 'in code'" in page.stderr
    assert [each["name"] for each in world.json("list", "--after", "in code")] == ["in db", "in redis"]
    for name in ("in code", "in db", "in redis"):
        assert len(world.json("next", name, "--count", "2")) == 2
        assert world.json("fires", name)[0]["name"] == name


def test_a_row_that_takes_the_name_of_a_schedule_in_code_does_not_fire(make_world: Make, mail: Mailbox) -> None:
    """It was written by another program; it is reported, and nothing else waits for it."""
    world = make_world()
    world.create("in redis", "redis")
    made = world.create("soon to clash", "db")
    import psycopg

    with psycopg.connect(world.direct) as connection:
        connection.execute("UPDATE service_scheduler SET name = 'in code' WHERE name = 'soon to clash'")
    beat = world.beat()
    beat.wait_for_log(r"in code: does not run: a schedule of that name is in the code")
    mail.several("code", 2)
    mail.several("redis", 2)
    assert mail.drain("db") == []
    assert world.parrot.schedules.get(made.schedule_id).name == "in code"
    world.parrot.schedules.update(made.schedule_id, name="free again")
    mail.take("db")
    assert beat.text().count("does not run") == 1
