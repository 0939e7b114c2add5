"""A pause, delete or edit between scan, claim and the move of the row: what is sent is never stale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols.editing import Change
from celery_parrot.testing import ManualBeat
from tests.integration.ledgers.scene import OnRedis, hourly, settle, store_of, wire_of
from tests.integration.stores_sql.database import SqlDatabase


def sql(scene: OnRedis, statement: str) -> None:
    """By a plain client."""
    database = scene._database
    assert isinstance(database, SqlDatabase)
    database.sql(statement)


EDITS: dict[str, Callable[[OnRedis, Schedule], object]] = {
    "pause": lambda scene, made: scene.store.hold([made.schedule_id], "person", "stop"),
    "delete": lambda scene, made: scene.store.delete([made.schedule_id]),
    "edit": lambda scene, made: scene.store.replace([Change(schedule=replace(made, prompt="new"))]),
    "plain disable": lambda scene, made: sql(scene, "UPDATE service_scheduler SET enabled = false"),
    "plain delete": lambda scene, made: sql(scene, "DELETE FROM service_scheduler"),
    "plain edit": lambda scene, made: sql(scene, "UPDATE service_scheduler SET prompt = 'new'"),
}


def play(scene: OnRedis, what: str, at: str) -> tuple[Schedule, ManualBeat]:
    """A schedule comes due; the edit is made right after the scan, or right after the claim; long enough for
    everything that is left over to be found."""
    if not scene.rows and (what.startswith("plain") or at == "claim"):
        pytest.skip("Redis has no SQL, and its commit is one step")
    made = hourly(scene)
    scene.store.insert([made])
    first, second = scene.beat(), scene.beat()
    settle(first)
    settle(second)
    hooked, name = (store_of(first), "due") if at == "scan" else (wire_of(first), "prepare")
    scene.advance(31)
    hooked.after(name, lambda: EDITS[what](scene, made))
    for _ in range(5):  # a server that was slow looks like a clock that stepped: two readings must agree first
        settle(first)
        if not hooked._after[name]:
            break
        scene.advance(0.3)
    assert not hooked._after[name], "the edit was made"
    scene.run(5)
    return made, first


def prompts(scene: OnRedis) -> list[Any]:
    return [message.kwargs["prompt"] for message in scene.sent()]


@pytest.mark.parametrize("at", ["scan", "claim"])
@pytest.mark.parametrize("what", EDITS)
def test_nothing_stale_is_sent(scene: OnRedis, what: str, at: str) -> None:
    """Held and deleted: nothing at all. Edited: once, as the new definition says (traces 5, 21 and 22)."""
    made, _ = play(scene, what, at)
    assert prompts(scene) == (["new"] if "edit" in what else [])
    sent = [entry for entry in scene.store.fires(made.schedule_id) if entry.status is Status.SENT]
    assert len(sent) == len(prompts(scene))


@pytest.mark.parametrize("at", ["scan", "claim"])
def test_without_comparing_versions_it_would_be(sqlite: OnRedis, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that the test above is about is the one that makes it pass."""
    from celery_parrot.stores.sql import advance

    judge = advance.judge
    monkeypatch.setattr(advance, "judge", lambda state, made: judge(state, replace(made, expected_version=None)))
    play(sqlite, "plain edit", at)
    assert prompts(sqlite) == ["old"]


@pytest.mark.parametrize("what", ["pause", "plain disable", "plain delete"])
def test_without_looking_at_the_row_it_would_be(sqlite: OnRedis, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for what holds a schedule: a commit that asks nobody sends."""
    from celery_parrot.model.plan import Verdict
    from celery_parrot.stores.sql import SqlStore

    monkeypatch.setattr(
        SqlStore, "advance", lambda self, moves, beat: [(Verdict.COMMITTED, move.plan.new_mark) for move in moves]
    )
    play(sqlite, what, "scan")
    assert prompts(sqlite) == ["old"]


# --- an edit right after a due time (trace 21) ---


def edit_after_due(scene: OnRedis, edit: Callable[[Schedule], object]) -> None:
    """The edit is made 2 ms after the due time, before any beat has looked."""
    made = hourly(scene)
    scene.store.insert([made])
    beat = scene.beat()
    settle(beat)
    (due,) = scene.store.definitions([made.schedule_id]).values()
    due_at = due.trigger.next_after(due.mark)
    scene.advance((due_at - scene.now()).total_seconds() + 0.002)
    edit(made)
    scene.run(2)


def test_an_edit_of_the_prompt_loses_no_due_time(scene: OnRedis) -> None:
    """Trace 21: it is fired, with the new prompt, and the edit has a version of its own."""
    edit_after_due(scene, lambda made: scene.store.replace([Change(schedule=replace(made, prompt="new"))]))
    assert prompts(scene) == ["new"]
    (stored,) = scene.store.get(["a"])
    assert stored.schedule.version == 2


def test_a_plain_edit_of_the_prompt_loses_no_due_time(rows: OnRedis) -> None:
    """Neither does one by a plain client, which bumps the version too."""
    edit_after_due(rows, lambda made: sql(rows, "UPDATE service_scheduler SET prompt = 'new'"))
    assert prompts(rows) == ["new"]
    (stored,) = rows.store.get(["a"])
    assert stored.schedule.version == 2


def test_an_edit_that_moved_the_mark_would(sqlite: OnRedis) -> None:
    """What others do at any edit: begin anew from now."""

    def begin_anew(made: Schedule) -> None:
        sql(sqlite, "UPDATE service_scheduler SET prompt = 'new'")
        now = f"{sqlite.now():%Y-%m-%d %H\\:%M\\:%S.%f}"
        sql(sqlite, f"UPDATE service_scheduler SET last_due = '{now}', next_run = NULL")

    edit_after_due(sqlite, begin_anew)
    assert prompts(sqlite) == []


# --- no fire of its own ---


def test_enabling_an_overdue_schedule_fires_nothing(scene: OnRedis) -> None:
    """Held since three hours ago; what came meanwhile is skipped, and its phase is what it was."""
    every = 60
    config = {"seconds": every, "offset": (scene.now().timestamp() + 30) % every}
    made = hourly(scene, schedule_config=config)
    scene.store.insert([made])
    scene.store.hold([made.schedule_id], "person", "quiet")
    scene.store.due(scene.now(), ["agent"], 10)
    if scene.rows:  # a database's clock cannot be moved: what is stored is made older
        assert isinstance(scene._database, SqlDatabase)
        scene._database.advance(3 * 3600)
    else:
        scene.advance(3 * 3600)
    beat = scene.beat()
    scene.run(2)
    scene.store.release([made.schedule_id])
    scene.run(10)
    assert scene.sent() == []
    scene.run(every)
    (due_at,) = {message.headers["parrot"]["due_at"] for message in beat.sent}
    (due,) = scene.store.definitions([made.schedule_id]).values()
    assert due_at == due.mark.isoformat()
    assert due.mark.timestamp() % every == pytest.approx(config["offset"])
    assert sum(one.count for one in scene.store.fires(made.schedule_id) if one.reason == "paused") in (180, 181)


def test_arguments_and_a_restart_fire_nothing(scene: OnRedis) -> None:
    """In the middle of a period: nothing is sent until the next due time, which has not moved."""
    every = 60
    made = hourly(scene, schedule_config={"seconds": every, "offset": (scene.now().timestamp() + 30) % every})
    scene.store.insert([made])
    beat = scene.beat()
    scene.run(32)
    assert len(scene.sent()) == 1
    scene.store.replace([Change(schedule=replace(made, prompt="new", kwargs={"n": 1}))])
    scene.run(5)
    beat.close()
    scene.beats.remove(beat)
    scene.beat()
    scene.run(10)
    assert scene.sent() == []
    scene.run(every - 14)
    (message,) = scene.sent()
    assert (message.kwargs["prompt"], message.kwargs["n"]) == ("new", 1)
    first, second = sorted(entry.due_at for entry in scene.store.fires(made.schedule_id))
    assert (second - first).total_seconds() == every
