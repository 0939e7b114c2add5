"""Backfill with real processes, and both verbs on the command line."""

from __future__ import annotations

import json
import signal
from datetime import timedelta

from tests.integration.demands.conftest import World
from tests.support.waiting import wait_until


def test_a_message_that_a_worker_saw_expire(world: World) -> None:
    """Trace 26: the id is in Celery's revoked set from then on, so the next attempt goes out under another one."""
    made = world.create(options={"expires": 0.5})
    due = world.schedules._coordination.now().replace(microsecond=0) - timedelta(minutes=30)
    world.schedules.update(
        "job", schedule_type="interval", schedule_config={"hours": 1, "offset": due.timestamp() % 3600}
    )
    start = world.schedules._coordination.now() - timedelta(minutes=40)
    world.beat()
    asking = world.command("backfill", "job", "--from", start.isoformat(), "--json")
    wait_until(lambda: world.state.llen("celery"), "the message to be with the broker", 20)
    sent = wait_until(lambda: [one for one in world.schedules.fires("job") if one.sent_at], "it to be told")[0].sent_at
    assert sent is not None
    wait_until(lambda: (world.schedules._coordination.now() - sent).total_seconds() > 0.7, "it to expire")
    worker = world.worker()
    output, _ = asking.communicate(timeout=90)
    assert (asking.returncode, json.loads(output)["outcomes"]) == (1, {"expired": 1})
    (entry,) = world.schedules.fires("job")
    worker.wait_for_log(f"Discarding revoked task: t.do.{entry.fire_id}")
    world.schedules.update("job", options={})
    done = world.schedules.backfill("job", due, due)
    assert done.outcomes == {"success": 1}
    (run,) = world.ran()
    assert (run["fire"], run["attempt"]) == (entry.fire_id, 2)
    assert made.schedule_id == entry.key.schedule_id


def test_on_the_command_line(world: World) -> None:
    """Ctrl-C stops asking, the same command goes on, and nothing runs twice; run-now waits for what comes of it."""
    world.create(schedule_type="interval", schedule_config={"hours": 1})
    world.beat()
    world.worker()
    now = world.schedules._coordination.now()
    stretch = (
        "job",
        "--from",
        (now - timedelta(hours=5.5)).isoformat(),
        "--to",
        (now - timedelta(hours=0.5)).isoformat(),
    )
    world.state.set("do", "hold")
    first = world.command("backfill", *stretch)
    world.wait_ran(1)
    first.send_signal(signal.SIGINT)
    output, error = first.communicate(timeout=90)
    assert (first.returncode, error) == (130, "")
    assert "job: 5 of 5 due times to fire, 0 have fired." in output
    assert "Stopped: 1 on their way go on, 4 were not asked for." in output
    world.state.set("go", "1")
    second = world.command("backfill", *stretch, "--max-active", "3")
    output, error = second.communicate(timeout=90)
    assert (second.returncode, error) == (0, "")
    assert output.splitlines()[0] == "job: 4 of 5 due times to fire, 1 have fired."
    assert output.splitlines()[-1] == "job: 4 success."
    assert [run["attempt"] for run in world.ran()] == [1] * 5
    assert len({run["due"] for run in world.ran()}) == 5

    asked = world.command("run-now", "job", "--kwargs", '{"what": "fail"}', "--wait")
    output, _ = asked.communicate(timeout=90)
    assert asked.returncode == 1
    assert output.splitlines()[-1].startswith("job: error after ")
    assert output.splitlines()[-1].endswith("ValueError: as told.")
