"""``parrot_allowed_tasks`` with real processes: a row by plain SQL, a beat that knows no list, a message by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from tests.e2e.test_stores_plain_sql import APP, READY, Site
from tests.integration.stores_sql.database import SqlDatabase, empty_url
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

REFUSED = r"a fire is refused: 'agents\.run' is not in parrot_allowed_tasks"


@pytest.fixture
def site(private_redis: PrivateRedis, procs: Procs, tmp_path: Path) -> Iterator[Site]:
    with empty_url("sqlite", tmp_path) as url:
        made = Site(SqlDatabase(url), private_redis, procs)
        yield made
        procs.close()
        made.close()


def limited(site: Site) -> dict[str, str]:
    """The environment of a process with a list. Its kind ``agent`` runs agents.run, which is trusted as such only."""
    settings = {**json.loads(site.env["TEST_SETTINGS"]), "parrot_allowed_tasks": ["t.*"]}
    return {**site.env, "TEST_SETTINGS": json.dumps(settings)}


def test_no_way_in(site: Site) -> None:
    """The row is broken and the next one runs; what another beat sends of it all the same is refused in the worker and
    recorded, and so is a message that names the fire of a schedule; bodies run for neither."""
    worker = site.procs.worker(APP, "-Q", "db,agents,celery", env=limited(site))
    beat = site.procs.beat(APP, env=limited(site))
    beat.wait_for_log(READY)
    site.insert("bad", target_name="'agents.run'", args="'[\"x\"]'")
    site.insert("good")
    worker.wait_for_log(r"t\.note\[.*succeeded")
    why = "SELECT broken_reason FROM service_scheduler WHERE name = 'bad'"
    wait_until(lambda: "parrot_allowed_tasks" in (site.sql(why)[0][0] or ""), "the reason in the row", 10)
    assert beat.terminate(5) == 0
    assert "refused" not in worker.text()

    site.sql('UPDATE service_scheduler SET enabled = (name = \'bad\'), options = \'{"queue": "db", "priority": 1}\'')
    other = site.procs.beat(APP, env=site.env)
    worker.wait_for_log(REFUSED)
    site.sql("UPDATE service_scheduler SET enabled = (1 = 0)")
    ended = "SELECT status, reason, error FROM service_scheduler_fire WHERE name = 'bad' AND status = 'error'"
    wait_until(lambda: site.sql(ended), "the refusal to be recorded", 15)
    assert tuple(site.sql(ended)[0][:2]) == ("error", "task not allowed")
    assert site.sql(ended)[0][2].startswith("NotAllowed: 'agents.run'")
    assert other.terminate(5) == 0

    seen = worker.text().count("a fire is refused")
    sent = "SELECT fire_id, schedule_id, due_at FROM service_scheduler_fire WHERE name = 'good' AND status = 'success'"
    fire_id, schedule_id, due_at = site.sql(sent)[0]
    header = {"scheduler": "scheduler_manager", "kind": "task", "attempt": 2, "fire_id": fire_id}
    header |= {"schedule_id": schedule_id, "due_at": f"{due_at}+00:00"}
    with Celery(broker=site.env["TEST_BROKER"], set_as_current=False) as app:
        app.send_task("agents.run", ["x"], task_id=f"{fire_id}:2", headers={"parrot": header}, queue="celery")
    wait_until(lambda: worker.text().count("a fire is refused") > seen, "the message by hand to be refused", 10)
    assert not [line for line in worker.text().splitlines() if "agents.run[" in line and "succeeded" in line]
    assert site.sql(sent), "what had succeeded stays so"
    assert "Traceback" not in worker.text()
