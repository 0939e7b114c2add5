"""What holds for every route of ours, whatever it does."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from celery_parrot.flower.api.document import ALL
from celery_parrot.flower.bridge.handlers import READING
from celery_parrot.flower.pages.routes import PAGES
from tests.integration.flower.asking import Api, at
from tests.support.redis_server import PrivateRedis

SHELLS = ("", "/schedules", "/schedules/new", "/schedules/nightly", *(f"/{page}" for page in PAGES))
WRITES = [(one.method, one.path) for one in ALL if one.method not in READING]
STREAM = "/events"


def path_of(template: str) -> str:
    """With a schedule, group and backfill in it."""
    names = {"/groups/{name}/release": "printer", "/backfills/{id}": "none"}
    return re.sub(r"\{\w+\}", names.get(template, "nightly"), template)


def kept(api: Api, redis: PrivateRedis) -> Any:
    """All that the stores and the coordinator have, but for when it was asked last; and the jobs of this Flower."""
    url = api.served.desk.settings.database
    assert url is not None
    with redis.client() as client:
        keys = {key: client.dump(key) for key in client.scan_iter() if not key.endswith(":coordinator")}
    with closing(sqlite3.connect(url.url.removeprefix("sqlite:///"))) as database:
        rows = list(database.iterdump())
    return keys, rows, api.get("/backfills")


def test_nothing_is_done_by_get(api: Api, redis_server: PrivateRedis) -> None:
    """Nor by HEAD or OPTIONS: at every address, also those that only take changes."""
    api.create("nightly", store="redis")
    api.create("paused")
    api.post(at("paused", "/pause"))
    api.get("/schedules")  # registers those of the code
    before = kept(api, redis_server)
    for method in READING:
        for path in {path_of(one.path) for one in ALL} - {STREAM}:
            assert api.ask(method, path).status in (200, 204, 404, 405, 503), (method, path)
        for page in SHELLS:
            assert api.served.ask(method, f"/parrot{page}").status in (200, 204, 302, 405), (method, page)
    assert kept(api, redis_server) == before


@pytest.mark.parametrize("refusal", ["forbidden", "read_only"])
def test_every_change_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch, refusal: str) -> None:
    """Of another site, and where nobody authenticates and Flower's own switch is off."""
    if refusal == "read_only":
        monkeypatch.delenv("FLOWER_UNAUTHENTICATED_API")
    headers = {"Sec-Fetch-Site": "cross-site"} if refusal == "forbidden" else {}
    for method, path in WRITES:
        answer = api.ask(method, path_of(path), {}, **headers)
        assert (answer.status, answer.error["type"]) == (403, refusal), (method, path)
