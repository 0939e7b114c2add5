"""All that a browser needs to see: a Redis, 1,000 schedules, a beat, a worker and Flower with a password."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from celery import Celery

from celery_parrot.client import Schedules
from celery_parrot.clock import SystemClock
from celery_parrot.runtime.clients import of_app
from tests.e2e.flower.data import KINDS, MAY_END, PLOTS, RENDERS, ZONE, schedules
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port
from tests.support.waiting import wait_until

APP = "tests.e2e.flower.app"
USER, PASSWORD = "ann", "s3cret & more"


@dataclass
class Stage:
    """The running processes, and ways to look past the pages."""

    url: str
    procs: Procs
    redis: PrivateRedis
    client: Schedules
    ids: Mapping[str, str] = field(default_factory=dict)

    def end(self, render: str) -> None:
        """A render that runs ends; one that does not will end as soon as it runs."""
        with self.redis.client() as client:
            client.rpush(MAY_END + render, "1")

    def run(self, *names: str) -> None:
        """Run these schedules now."""
        for name in names:
            self.client.run_now(name)

    def wait_for(self, name: str, status: str) -> None:
        """Wait until the last fire of a schedule has come out, or stands, like this."""
        wait_until(lambda: [fire.status for fire in self.client.fires(name, limit=1)] == [status], f"{name}: {status}")

    def path_of(self, name: str) -> str:
        """The page of a schedule."""
        return f"/parrot/schedules/{quote(self.ids[name], safe='')}"

    def ask(self, path: str) -> Any:
        """The API's answer to a GET."""
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Basic {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


def open_stage(directory: Path) -> Iterator[Stage]:
    """Start everything, wait until each part answers, and end it again."""
    procs = Procs(directory / "procs")
    with PrivateRedis(directory / "redis") as redis:
        try:
            stage = _started(procs, redis)
            yield stage
            for render in (*RENDERS, *PLOTS):
                stage.end(render)
            stage.client.close()
        finally:
            procs.close()


def _started(procs: Procs, redis: PrivateRedis) -> Stage:
    env = {"STAGE_BROKER": redis.url()}
    port = free_port()
    flower = procs.celery(
        "flower", APP, "parrot", "flower", f"--port={port}", "--address=127.0.0.1", f"--basic_auth={USER}:{PASSWORD}",
        env=env,
    )  # fmt: skip
    worker = procs.worker(APP, "--pool", "threads", concurrency=4, env=env)
    stage = Stage(f"http://127.0.0.1:{port}", procs, redis, _client(redis))
    made = stage.client.create_many(schedules())
    stage.ids = {view.name: view.schedule_id for view in made}
    beat = procs.beat(APP, env=env)
    worker.wait_for_log(r"\bready\b")
    beat.wait_for_log("ready")
    wait_until(lambda: _answers(stage), "Flower to answer", 30, interval=0.1, explain=flower.tail)
    wait_until(lambda: stage.ask("/parrot/api/fires")["items"], "Flower to see a fire", 20, explain=flower.tail)
    return stage


def _answers(stage: Stage) -> bool:
    try:
        stage.ask("/parrot/api/kinds")
    except urllib.error.HTTPError as exc:
        return exc.code < 500
    return True


def _client(redis: PrivateRedis) -> Schedules:
    """A client of this process: the app's module is for the processes, for it reads its broker when it is imported."""
    app = Celery("stage", broker=redis.url())
    app.conf.update(parrot_redis_url=redis.url(), timezone=ZONE, parrot_kinds=KINDS)
    return of_app(app, SystemClock())
