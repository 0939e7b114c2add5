"""The whole scheduler over HTTP: groups, beats, health, files, backfills; and servers that are gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.integration.flower.asking import API, Api, api_of, at, new, shop
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until


def test_what_there_is_to_choose_from(api: Api) -> None:
    known = api.get("/kinds")
    assert (known["kinds"], known["stores"], known["timezone"]) == (
        ["report", "task"], ["code", "db", "redis"], "Europe/Madrid",
    )  # fmt: skip
    assert known["may_write"]
    assert api.get("/schema")["required"] == ["name", "target", "schedule_type", "schedule_config"]
    assert api.get("/openapi.json")["openapi"] == "3.1.0"
    assert api.get("/timeline")["bucket_seconds"] == 600


def test_without_a_beat_it_is_not_healthy(api: Api) -> None:
    answer = api.ask("GET", "/health")
    assert (answer.status, answer.json["healthy"]) == (503, False)
    assert "no beat" in answer.json["reason"]
    beats = api.get("/beats")
    assert (beats["items"], beats["max_clock_skew"]) == ([], 5)


def test_a_group_that_nobody_holds(api: Api) -> None:
    assert api.get("/groups") == {"items": []}
    refused = api.post("/groups/printer/release", {})
    assert (refused.status, refused.error["type"], refused.error["name"]) == (404, "not_found", "printer")


def test_export_and_apply(api: Api) -> None:
    """What one gives the other takes; without dry_run: false nothing is written."""
    api.create("a", store="redis")
    api.create("b", jitter=3)
    exported = api.get("/export?limit=100")
    assert ([one["name"] for one in exported["schedules"]], exported["after"]) == (["a", "b"], "")
    same = api.post("/apply", {"schedules": exported["schedules"]}).json
    assert same["counts"] == {"create": 0, "update": 0, "delete": 0, "unchanged": 2, "refused": 0}
    wanted = {"schedules": [new("b"), new("c"), {"name": "d", "jiter": 1}], "prune": True}
    told = api.post("/apply", wanted).json
    assert {step["name"]: step["action"] for step in told["steps"]} == {
        "a": "delete", "b": "update", "c": "create", "d": "refused",
    }  # fmt: skip
    assert told["steps"][0]["changes"] == {"jitter": {"before": 3, "after": 0}}
    assert api.get(at("a"))["name"] == "a"
    done = api.post("/apply", {**wanted, "dry_run": False}).json
    assert done["counts"] == {"create": 1, "update": 1, "delete": 1, "unchanged": 0, "refused": 1}
    assert [one["name"] for one in api.get("/export")["schedules"]] == ["b", "c"]
    assert [one["name"] for one in api.get("/export?store=code")["schedules"]] == ["celery.backend_cleanup", "pulse"]
    nameless = api.post("/apply", {"schedules": [{}], "prune": True})
    assert (nameless.status, nameless.error["type"]) == (409, "refused")
    assert api.post("/apply", {"schedules": [], "store": "db"}).error["field"] == "store"


def test_a_backfill_is_a_job(api: Api) -> None:
    """What is wrong with it is told at once; it runs until it is cancelled."""
    api.create("nightly", schedule_config={"expr": "0 * * * *"}, timezone="UTC")
    path = at("nightly", "/backfill")
    wrong = api.post(path, {"from": "tomorrowish"})
    assert (wrong.status, wrong.error["field"]) == (422, "from")
    assert api.post(path, {"from": "2020-01-01"}).error["field"] == "from"
    stretch = _yesterday(api)
    dry = api.post(path, {**stretch, "dry_run": True})
    assert (dry.status, dry.json["total"], len(dry.json["due_times"])) == (200, 24, 24)
    begun = api.post(path, {**stretch, "max_active": 2})
    assert (begun.status, begun.headers["Location"]) == (202, f"{API}/backfills/{begun.json['id']}")
    job = f"/backfills/{begun.json['id']}"
    wait_until(lambda: api.get(job)["asked"] == 2, "two to be asked for", 10)
    told = api.get(job)
    assert (told["state"], told["total"], len(told["active"])) == ("running", 24, 2)
    assert [one["id"] for one in api.get("/backfills")["items"]] == [begun.json["id"]]
    assert api.delete(job).json["state"] in ("stopping", "cancelled")
    wait_until(lambda: api.get(job)["state"] == "cancelled", "the backfill to stop", 10)
    assert api.get(job)["asked"] == 2
    assert api.ask("GET", "/backfills/none").status == 404


def _yesterday(api: Api) -> dict[str, Any]:
    today = api.client.get("nightly").created_at
    assert today is not None
    day = f"{today - timedelta(days=1):%Y-%m-%d}"
    return {"from": day, "to": day}


@pytest.mark.parametrize("gone", ["redis", "database"])
def test_what_is_out_of_reach_is_told_in_one_sentence(
    make_redis: Callable[..., PrivateRedis], database: str, open_to_all: None, gone: str
) -> None:
    """With its address, as 503; what needs no server is answered."""
    server = make_redis()
    if gone == "database":
        database = "postgresql://parrot:s3cret@127.0.0.1:1/shop"
    with api_of(shop(server.url(), database)) as api:
        if gone == "redis":
            server.kill()
        for answer in (
            api.ask("GET", "/schedules"),
            api.ask("GET", at("nightly")),
            api.post("/schedules", new("nightly")),
        ):
            assert (answer.status, answer.error["type"]) == (503, "unreachable")
            assert ("Redis at redis://" if gone == "redis" else "127.0.0.1:1") in answer.error["message"]
            assert "s3cret" not in answer.body
            assert "Traceback" not in answer.body
        if gone == "redis":
            assert "cannot be reached" in api.ask("GET", "/health").json["reason"]
        assert api.post("/preview", {"schedule_type": "daily", "schedule_config": {}}).status == 200


def test_under_a_prefix(redis_url: str, database: str, open_to_all: None) -> None:
    """The document and what was made are there, too."""
    with api_of(shop(redis_url, database), url_prefix="ops") as api:
        api.prefix = f"/ops{API}"
        made = api.post("/schedules", new("nightly"))
        assert made.headers["Location"] == f"/ops{API}/schedules/{made.json['schedule_id']}"
        assert api.get("/openapi.json")["servers"] == [{"url": f"/ops{API}"}]
