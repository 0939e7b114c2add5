"""An app with a database and a Redis, and requests to the API that Flower serves for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from celery import Celery

from celery_parrot.client import Schedules
from tests.integration.flower.served import Answer, Served, serve

API = "/parrot/api"


def shop(redis_url: str, database: str | None) -> Celery:
    """An app whose schedules live in code, Redis and, if there is one, a database."""
    app = Celery("shop", broker=redis_url, set_as_current=False)
    app.conf.update(
        parrot_redis_url=redis_url,
        parrot_kinds={"report": {"task": "shop.report", "exclusion_group": "printer"}},
        timezone="Europe/Madrid",
        beat_schedule={"pulse": {"task": "shop.pulse", "schedule": 60.0}},
    )
    if database is not None:
        app.conf.parrot_database_url = database
    return app


@dataclass
class Api:
    """The API of one Flower."""

    served: Served
    prefix: str = API

    def ask(self, method: str, path: str, body: Any = None, /, **headers: str) -> Answer:
        """One request; a body that is no bytes is sent as JSON."""
        sent = self.served.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = self.served.connect()
        try:
            connection.request(method, self.prefix + path, data, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()

    def get(self, path: str, /, **headers: str) -> Any:
        """What a GET answers, which succeeds."""
        answer = self.ask("GET", path, **headers)
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body: Any = None, /, **headers: str) -> Answer:
        return self.ask("POST", path, body, **headers)

    def patch(self, name: str, body: Any, /, **headers: str) -> Answer:
        return self.ask("PATCH", at(name), body, **headers)

    def delete(self, path: str, /, **headers: str) -> Answer:
        return self.ask("DELETE", path, **headers)

    def create(self, name: str, **fields: Any) -> Any:
        """A schedule that was not there."""
        answer = self.post("/schedules", new(name, **fields))
        assert answer.status == 201, answer.body
        return answer.json

    @property
    def client(self) -> Schedules:
        return self.served.desk.client


def at(name: str, verb: str = "") -> str:
    """The path of a schedule."""
    return f"/schedules/{quote(name, safe='')}{verb}"


def new(name: str, **fields: Any) -> dict[str, Any]:
    """The fields of a schedule."""
    config = {"expr": "30 6 * * *"}
    return {"name": name, "target": "shop.sync", "schedule_type": "cron", "schedule_config": config, **fields}


@contextmanager
def api_of(app: Celery, **options: Any) -> Iterator[Api]:
    """Flower over ``app``, open to all."""
    with serve(app, **options) as served:
        yield Api(served)
