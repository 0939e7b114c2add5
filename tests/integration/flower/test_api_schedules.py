"""Schedules over HTTP, by real requests to a real Flower over a Redis and a database."""

from __future__ import annotations

import json
from typing import Any

import pytest

from celery_parrot.flower.api.requests import MOST
from tests.integration.cli.conftest import Shop
from tests.integration.flower.asking import API, Api, api_of, at, new, shop

HOOK = {
    "type": "webhook",
    "url": "https://hooks.example.com/in/T0KEN",
    "secret": "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0",
}


def test_a_schedule_is_made_read_changed_and_deleted(api: Api) -> None:
    """With its version as ETag, whatever its name holds."""
    made = api.post("/schedules", new("a b/ñ", timezone="UTC"))
    assert (made.status, made.headers["ETag"]) == (201, '"1"')
    assert made.headers["Location"] == f"{API}/schedules/{made.json['schedule_id']}"
    assert made.json["sentence"] == made.json["description"]
    assert made.json["sentence"].startswith("At 06:30")
    read = api.ask("GET", at("a b/ñ"))
    assert (read.status, read.headers["ETag"], read.json["timezone"]) == (200, '"1"', "UTC")
    assert read.headers["Cache-Control"] == "no-store"
    changed = api.patch("a b/ñ", {"jitter": 3}, If_Match='"1"')
    assert (changed.status, changed.headers["ETag"], changed.json["jitter"]) == (200, '"2"', 3)
    gone = api.delete(at("a b/ñ"), If_Match='"2"')
    assert (gone.status, gone.body, gone.headers["Content-Type"]) == (204, "", None)
    assert api.ask("GET", at("a b/ñ")).status == 404


def test_a_payload_is_what_the_command_line_shows(api: Api) -> None:
    """All of it, and the sentence besides."""
    api.create("nightly", kwargs={"to": "sales"}, start_at="2030-01-01T00:00")
    there = Shop(api.served.desk.app).json("show", "nightly")
    assert api.get(at("nightly")) == {**there, "sentence": there["description"]}


@pytest.mark.parametrize(("headers", "body"), [({"If_Match": '"1"'}, {}), ({}, {"version": 1})])
def test_a_stale_version_is_a_conflict_and_changes_nothing(api: Api, headers: dict[str, str], body: Any) -> None:
    api.create("nightly")
    api.patch("nightly", {"jitter": 3})
    for refused in (
        api.patch("nightly", {"jitter": 4, **body}, **headers),
        api.post(at("nightly", "/pause"), body, **headers),
        api.post(at("nightly", "/run-now"), body, **headers),
        *([api.delete(at("nightly"), **headers)] if headers else []),
    ):
        assert (refused.status, refused.error["type"]) == (409, "conflict")
        assert (refused.error["version"], refused.error["current"]) == (1, 2)
    there = api.get(at("nightly"))
    assert (there["jitter"], there["state"], there["version"]) == (3, "active", 2)


def test_an_unknown_name_is_answered_with_the_closest(api: Api) -> None:
    api.create("nightly report")
    for answer in (
        api.ask("GET", at("nightly reprot")),
        api.ask("GET", at("nightly reprot", "/why")),
        api.post(at("nightly reprot", "/run-now")),
    ):
        assert (answer.status, answer.error["type"]) == (404, "not_found")
        assert answer.error["closest"] == ["nightly report"]


def test_what_is_invalid_names_its_field(api: Api) -> None:
    """Beside the error, too, and with no secret."""
    hook = {"type": "webhook", "url": "https://a:s3cret@b.c/"}
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"schedule_config": {"expr": "61 * * * *"}}, "minute", "is not one of 0-59"),
        ({"timezone": "Europe/Madird"}, "timezone", "Europe/Madird"),
        ({"jiter": 3}, "jiter", "did you mean 'jitter'"),
        ({"target": ""}, "target", "must not be empty"),
        ({"name": "a\u0007"}, "name", "control characters"),
        ({"store": "code"}, "store", "must be one of db, redis"),
        ({"callbacks": [hook]}, "callbacks[0].url", "headers"),
    ]
    for changes, field, says in wrong:
        answer = api.post("/schedules", new("nightly") | changes)
        assert (answer.status, answer.error["type"], answer.error["field"]) == (422, "invalid", field)
        assert says in answer.error["message"]
        assert answer.json["field"] == field
        assert "s3cret" not in answer.body


def test_a_name_that_is_taken(api: Api) -> None:
    api.create("nightly", store="redis")
    answer = api.post("/schedules", new("nightly"))
    assert (answer.status, answer.error["type"], answer.error["store"]) == (409, "exists", "redis")


def test_pages_filters_and_search(api: Api) -> None:
    for number in range(5):
        api.create(f"s{number}", store="redis" if number % 2 else "db", kind="report" if number == 4 else "task")
    api.post(at("s3", "/pause"))
    first = api.get("/schedules?text=s&store=db&limit=2&kind=")
    assert ([one["name"] for one in first["items"]], first["after"], first["next"]) == (["s0", "s2"], "s2", "s2")
    rest = api.get("/schedules?text=s&store=db&limit=2&after=s2")
    assert ([one["name"] for one in rest["items"]], rest["after"]) == (["s4"], "")
    assert [one["name"] for one in api.get("/schedules?state=paused")["items"]] == ["s3"]
    assert [one["name"] for one in api.get("/schedules?kind=report")["items"]] == ["s4"]
    assert api.ask("GET", "/schedules?store=nowhere").error["field"] == "store"


def test_pausing_keeps_who_and_why(redis_url: str, database: str) -> None:
    with api_of(shop(redis_url, database), basic_auth=["ann:secret"]) as api:
        api.served.headers["Authorization"] = "Basic YW5uOnNlY3JldA=="
        api.create("nightly")
        paused = api.post(at("nightly", "/pause"), {"note": "stocktaking"}).json
        assert (paused["state"], paused["note"]) == ("paused", "ann: stocktaking")
        assert api.post(at("nightly", "/resume")).json["state"] == "active"
        assert api.get("/kinds")["actor"] == "ann"


def test_run_now_while_one_is_running(api: Api) -> None:
    api.create("nightly", store="redis")
    asked = api.post(at("nightly", "/run-now"), {"kwargs": {"to": "ops"}, "key": "k"})
    assert (asked.status, asked.json["name"], asked.json["again"]) == (202, "nightly", False)
    assert api.post(at("nightly", "/run-now"), {"key": "k"}).json["again"]
    refused = api.post(at("nightly", "/run-now"))
    assert (refused.status, refused.error["type"]) == (409, "already_running")
    assert refused.error["held_by"] == asked.json["fire_id"]
    assert refused.error["since"] >= asked.json["due_at"]
    (fire,) = api.get(at("nightly", "/fires"))["items"]
    assert (fire["fire_id"], fire["origin"]) == (asked.json["fire_id"], "run_now")
    story = api.get(at("nightly", f"/why?fire={fire['fire_id']}"))
    assert story["fire_id"] == fire["fire_id"]
    assert api.ask("GET", at("nightly", "/why?fire=none")).error["fire"] == "none"


def test_due_times_say_what_clock_changes_do(api: Api) -> None:
    """Of a saved schedule, and of one that nobody has saved."""
    spec = {"schedule_config": {"expr": "30 2 * * *"}, "timezone": "Europe/Madrid", "start_at": "2027-03-28T00:00"}
    api.create("early", **spec, max_fires=2)
    first, second = api.get(at("early", "/next?count=9"))
    assert (first["local"], first["mark"]) == ("2027-03-28T03:00:00+02:00", "moved")
    assert (second["local"], second["mark"]) == ("2027-03-29T02:30:00+02:00", None)
    drawn = api.post("/preview", {"schedule_type": "cron", **spec, "count": 2})
    assert drawn.status == 200
    assert drawn.json["next"] == [first, second]
    assert drawn.json["sentence"] == api.get(at("early"))["sentence"]
    wrong = api.post("/preview", {"schedule_type": "daily", "schedule_config": {"hour": 24}})
    assert (wrong.status, wrong.error["field"]) == (422, "hour")


def test_secrets_of_callbacks_leave_by_no_door_and_masks_come_in_by_none(api: Api) -> None:
    shown = api.create("nightly", callbacks=[HOOK])["callbacks"]
    assert shown == [{"type": "webhook", "url": "https://hooks.example.com/…", "secret": "…"}]
    for path in ("/schedules", at("nightly"), "/export"):
        text = api.ask("GET", path).body
        assert "T0KEN" not in text
        assert "whsec" not in text
    for answer in (
        api.patch("nightly", {"callbacks": shown}),
        api.post("/apply", {"schedules": [{**new("nightly"), "callbacks": shown}], "dry_run": False}),
    ):
        assert (answer.status, answer.error["field"]) == (422, "callbacks")
        assert "stands for a secret" in answer.error["message"]
    assert api.client.get("nightly").callbacks == (HOOK,)
    other = {**HOOK, "secret": "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3"}
    dry = api.post("/apply", {"schedules": [{**new("nightly"), "callbacks": [other]}]})
    assert dry.json["steps"][0]["action"] == "update"
    assert "whsec" not in dry.body


def test_a_schedule_of_the_code_is_paused_and_not_changed(api: Api) -> None:
    assert api.post(at("pulse", "/pause")).json["state"] == "paused"
    refused = api.patch("pulse", {"jitter": 3})
    assert (refused.status, refused.error["type"]) == (409, "refused")
    assert "changed there" in refused.error["message"]
    assert api.delete(at("pulse")).status == 409


def test_what_is_no_request(api: Api) -> None:
    """Each kind of it has its status, and none is a fault of ours."""
    path = "/schedules"
    assert api.post(path, b"{").status == 400
    assert api.post(path, b"{}", Content_Type="text/plain").status == 415
    assert api.post(path, b" " * (MOST + 1)).error["type"] == "too_large"
    assert api.post(path, {**new("big"), "prompt": "x" * (MOST - 300)}).status in (201, 422)
    assert api.ask("GET", "/schedules/a/b").error["type"] == "not_found"
    assert api.ask("GET", "/schedules/a%ffb").status == 400
    assert api.ask("GET", "/schedules/a%00b").status == 422
    assert api.ask("GET", "/schedules?text=%ff").status == 400
    wrong = api.ask("PUT", path)
    assert (wrong.status, wrong.headers["Allow"]) == (405, "GET, POST")
    assert api.patch("nightly", {}, If_Match="1").error["field"] == "If-Match"


def test_a_body_in_pieces_is_counted_too(api: Api) -> None:
    """Nobody says beforehand how long it is."""
    connection = api.served.connect()
    pieces = (b" " * 100_000 for _ in range(30))
    connection.request("POST", f"{API}/schedules", pieces, {"Content-Type": "application/json"}, encode_chunked=True)
    response = connection.getresponse()
    assert (response.status, json.load(response)["error"]["type"]) == (413, "too_large")
    connection.close()


def test_whoever_may_not_write_is_told_why(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWER_UNAUTHENTICATED_API")
    known = api.get("/kinds")
    assert not known["may_write"]
    assert "--basic_auth" in known["why_not"]
