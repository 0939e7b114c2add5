"""The verbs that change schedules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import Shop

MORNING = ("create", "morning report", "cron", "30 6 * * mon-fri", "--target", "shop.sync")


def test_create_by_hand(shop: Shop) -> None:
    """Type and spec as for preview, every field as an option, and when it is due."""
    made = shop.says(*MORNING, "--kwargs", '{"to": "sales"}', "--misfire-grace", "null", "--tz", "UTC", "--prompt", "7")
    assert made.startswith("morning report is in the db store; due next at ")
    view = shop.schedules.get("morning report")
    assert (view.kwargs, view.misfire_grace, view.timezone, view.prompt) == ({"to": "sales"}, None, "UTC", "7")
    assert view.schedule_config == {"expr": "30 6 * * mon-fri"}
    as_json = shop.json("create", "--name", "b", "--type", "daily", "--config", '{"hour": 9}', "--target", "shop.sync")
    assert (as_json["name"], as_json["schedule_config"], as_json["version"]) == ("b", {"hour": 9}, 1)
    assert shop.json("create", "c", "interval", "90s", "--target", "x", "--store", "redis")["store"] == "redis"


def test_create_warns_of_a_task_that_is_not_known(shop: Shop) -> None:
    """It works all the same, and what is printed for programs stays clean."""
    result = shop.ask("create", "a", "interval", "90s", "--target", "shop.nobody", "--json")
    assert json.loads(result.stdout)["name"] == "a"
    assert result.stderr == "Warning: a: no task 'shop.nobody' is known here; a worker must have it\n"
    assert shop.ask("create", "b", "interval", "90s", "--target", "shop.sync").stderr == ""


@pytest.mark.parametrize("form", ["schedules:\n- {}\n- {}\n", "{}\n---\n{}\n", "[{}, {}]"])
def test_create_several_from_a_file(shop: Shop, tmp_path: Path, form: str) -> None:
    """All or, if one is wrong, none; options go on top."""
    one = '{"name": "a", "target": "shop.sync", "schedule_type": "interval", "schedule_config": {"hours": 1}}'
    text = form.format(one, one.replace('"a"', '"b"'))
    file = tmp_path / "some.yaml"
    file.write_text(text)
    bad = shop.fails("create", "--file", str(file), "--timezone", "Mars/Base")
    assert bad.startswith("Error: timezone = 'Mars/Base'")
    assert shop.schedules.find(store="redis") == ()
    made = shop.json("create", "--file", "-", "--store", "redis", typed=text)
    assert [(each["name"], each["store"]) for each in made] == [("a", "redis"), ("b", "redis")]


def test_what_show_prints_can_be_created_again(shop: Shop) -> None:
    """What reading adds is left alone."""
    shop.says(*MORNING)
    shown = shop.says("show", "morning report", "--json")
    shop.says("delete", "morning report", "--yes")
    assert shop.json("create", "--file", "-", typed=shown)["name"] == "morning report"


MISTAKES = (
    (("create", "a", "cron"), "A schedule needs schedule_config, target", 2),
    (("create", "a", "interval", "90s", "--name", "b"), "name is given twice", 2),
    (("create", "sync-stock", "interval", "90s", "--target", "x"), "already, in the code store", 1),
    (("create", "a", "cron", "0 25 * * *", "--target", "x"), "hour", 1),
    (("create", "a", "crom", "0 5 * * *", "--target", "x"), "TYPE", 1),
    (("create", "a", "interval", "90s", "--target", "x", "--jitter", "soon"), "must be a number", 1),
    (("create", "a", "interval", "90s", "--target", "x", "--store", "db2"), "store = 'db2'", 1),
    (("create", "--file", "-"), "Standard input is not YAML or JSON", 1),
    (("update", "morning reprt", "jitter=1"), "'morning reprt'. Did you mean morning report?", 1),
    (("update", "morning report", "jiter=1"), "unknown field; did you mean 'jitter'?", 1),
    (("update", "morning report", "jitter"), "'jitter' is not FIELD=VALUE", 2),
    (("update", "morning report"), "Nothing to change", 2),
    (("update", "morning report", "jitter=1", "--version", "7"), "no longer at version 7, it is 1 now", 1),
    (("update", "morning report", "store=redis"), "a schedule stays in its store", 1),
    (("update", "sync-stock", "jitter=1"), "is defined in the code and changed there", 1),
    (("pause", "morning report", "--version", "7"), "no longer at version 7", 1),
    (("resume", "nobody"), "There is no schedule 'nobody'.", 1),
    (("delete", "morning report", "--yes", "--version", "7"), "no longer at version 7", 1),
    (("delete", "morning report"), "nobody can be asked here", 1),
    (("delete", "sync-stock", "--yes"), "is defined in the code and deleted there", 1),
    (("show", "morning"), "There is no schedule 'morning'.", 1),
    (("groups", "release", "gpu", "--yes"), "nobody holds or waits for 'gpu'", 1),
    (("groups", "relase"), "There is no command 'relase'. Did you mean release?", 2),
    (("apply", "-"), "Standard input is not YAML or JSON", 1),
    (("apply", "no-such-file"), "No such file", 2),
    (("apply", "-", "--kind", "x"), "without it they do nothing", 2),
)  # fmt: skip


def test_a_mistake_is_one_sentence(shop: Shop) -> None:
    """And changes nothing."""
    shop.says(*MORNING)
    before = shop.json("list")
    wrong: list[object] = []
    for arguments, says, code in MISTAKES:
        result = shop.ask(*arguments, typed="{[")
        *_, last = result.stderr.strip().splitlines() or [""]
        if says not in last or result.exit_code != code or result.stdout:
            wrong.append((arguments, says, result.exit_code, result.output))
    assert wrong == []
    after = shop.json("list")
    assert [(each["name"], each["version"]) for each in after] == [(each["name"], each["version"]) for each in before]


def test_update_changes_what_is_named(shop: Shop) -> None:
    """By pair, option or file; a config may be in the short form of the type."""
    shop.says(*MORNING)
    said = shop.says("update", "morning report", 'kwargs={"a": 1}', "--jitter", "3", "--version", "1")
    assert said == "morning report is at version 2: At 06:30, Monday through Friday.\n"
    assert shop.json("update", "morning report", "schedule_config=0 7 * * *")["schedule_config"] == {
        "expr": "0 7 * * *"
    }
    changed = shop.json("update", "morning report", "--type", "daily", "--config", "8:15", "name=early report")
    assert (changed["name"], changed["schedule_config"]) == ("early report", {"hour": 8, "minute": 15, "second": 0})
    view = shop.json("update", "early report", "--file", "-", typed="prompt: hello\nversion: 1\n")
    assert (view["prompt"], view["kwargs"], view["jitter"], view["version"]) == ("hello", {"a": 1}, 3.0, 5)
    assert "like that already" in shop.says("update", "early report", "prompt=hello")


def test_pause_says_why_and_by_whom(shop: Shop) -> None:
    """Schedules of the code too; resume lets it run again."""
    for name in ("morning report", "sync-stock"):
        if name == "morning report":
            shop.says(*MORNING)
        assert "is paused (ann: stocktaking)" in shop.says("pause", name, "--note", "stocktaking", "--by", "ann")
        shown = shop.says("show", name).splitlines()
        assert "paused (ann: stocktaking)" in shown[0]
        assert shop.json("list", "--state", "paused")[0]["note"] == "ann: stocktaking"
        assert f"{name} is active; due next at " in shop.says("resume", name)
        assert shop.json("list", "--state", "paused") == []


def test_delete_asks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal; a no changes nothing."""
    shop.says(*MORNING)
    monkeypatch.setattr("celery_parrot.cli.asking._on_a_terminal", lambda: True)
    refused = shop.ask("delete", "morning report", typed="n\n")
    assert "Delete morning report (db store, At 06:30, Monday through Friday)? [y/N]" in refused.stderr
    assert refused.stderr.endswith("Error: Nothing was changed.\n")
    assert refused.exit_code == 1
    deleted = shop.json("delete", "morning report", typed="y\n")
    assert deleted["name"] == "morning report"
    assert "There is no schedule" in shop.fails("show", "morning report")


def test_show_has_what_differs_from_the_default(shop: Shop) -> None:
    shop.says(*MORNING, "--kwargs", '{"to": "é"}')
    lines = dict(line.split("  ", 1) for line in shop.says("show", "morning report").splitlines())
    assert lines["when"].strip().startswith("At 06:30, Monday through Friday (Europe/Madrid")
    assert lines["kwargs"].strip() == '{"to": "é"}'
    assert "prompt" not in lines
    assert shop.json("show", "morning report")["prompt"] is None


# --- files ---


def documents(*names: str, **more: Any) -> str:
    common = {"target": "shop.sync", "schedule_type": "interval", "schedule_config": {"hours": 1}, **more}
    return json.dumps([{"name": name, **common} for name in names])


def test_export_and_apply_are_a_round_trip(shop: Shop, tmp_path: Path) -> None:
    """Over both stores; nothing is written where nothing differs."""
    shop.says(*MORNING, "--kwargs", '{"on": "9:30"}')
    shop.says("create", "--file", "-", "--store", "redis", typed=documents("a", "b", kind="report"))
    file = tmp_path / "all.yaml"
    shop.says("export", "--output", str(file))
    assert shop.says("apply", str(file)) == "3 as they are.\n"
    before = {each["name"]: each for each in shop.json("list")}
    for name in ("morning report", "a", "b"):
        shop.says("delete", name, "--yes")
    assert shop.says("apply", str(file)).endswith("3 new.\n")
    for name, each in before.items():
        now = shop.json("show", name)
        same = ("kind", "store", "kwargs", "schedule_config", "misfire_grace", "timezone", "target")
        assert {key: now[key] for key in same} == {key: each[key] for key in same}
    assert [each["name"] for each in shop.json("export", "--kind", "report")] == ["a", "b"]
    assert [each["name"] for each in shop.json("export", "--store", "code")] == ["sync-stock"]


def test_a_pause_is_no_part_of_a_file(shop: Shop) -> None:
    """It is named, because what is created from the file elsewhere runs; what is there stays paused."""
    shop.says(*MORNING)
    shop.says("create", "off", "interval", "1h", "--target", "shop.sync", "--enabled", "false")
    assert shop.ask("export").stderr == ""
    shop.says("pause", "morning report")
    exported = shop.ask("export")
    assert exported.exit_code == 0
    assert "no part of it: morning report. Created elsewhere" in exported.stderr
    assert shop.says("apply", "-", typed=exported.stdout) == "2 as they are.\n"
    assert shop.json("show", "morning report")["state"] == "paused"
    assert re.search(r"paused +\(in [^)]+\)", shop.says("list", "--search", "morning"))
    assert "would be due" in shop.says("show", "morning report")
    found = shop.says("list", "--state", "broken", "--search", "morning")
    assert found == "No schedules with --state broken --search morning.\n"
    shop.says("resume", "morning report")
    assert re.search(r"active +in ", shop.says("list", "--search", "morning"))
    assert "would be due" not in shop.says("show", "morning report")


def test_apply_shows_what_it_would_do(shop: Shop) -> None:
    """With --dry-run only that; then it does, and a refused one keeps no other from being written."""
    shop.says("apply", "-", typed=documents("a", "b"))
    text = json.dumps([*json.loads(documents("a", jitter=5)), *json.loads(documents("c", timezone="Mars/Base"))])
    result = shop.ask("apply", "-", "--prune", "--dry-run", typed=text)
    assert result.exit_code == 1
    assert (
        result.stdout.splitlines()
        == [
            "~ a (db)",
            "    jitter: 0.0 -> 5.0",
            "! c: timezone = 'Mars/Base': no such time zone",
            "- b (db)",
            "1 changed, 1 deleted, 1 refused; nothing was written.",
        ]
        or "Mars/Base" in result.stdout
    )
    assert shop.schedules.get("a").jitter == 0
    asked = shop.fails("apply", "-", "--prune", typed=text)
    assert "nobody can be asked here" in asked
    result = shop.ask("apply", "-", "--prune", "--yes", "--json", typed=text)
    assert result.exit_code == 1
    assert [(each["name"], each["action"], each["field"]) for each in json.loads(result.stdout)] == [
        ("a", "update", ""),
        ("c", "refused", "timezone"),
        ("b", "delete", ""),
    ]
    assert [view.name for view in shop.schedules.find(store="db")] == ["a"]
    assert shop.schedules.get("a").jitter == 5


def test_export_says_what_it_leaves_out(shop: Shop, redis_client: Any) -> None:
    """A backup that lacks one must not look whole."""
    shop.says("create", "--file", "-", "--store", "redis", typed=documents("a", "b"))
    broken = shop.schedules.get("b").schedule_id
    redis_client.hset("parrot:scheduler:scheduler_manager:jobs", broken, "nonsense")
    result = shop.ask("export")
    assert (result.exit_code, "name: a" in result.stdout, "name: b" in result.stdout) == (1, True, False)
    assert result.stderr.startswith("Left out: b (redis store): ")


def test_one_that_cannot_be_read_is_shown_and_mended(shop: Shop, redis_client: Any) -> None:
    """With the reason; whole fields make it a schedule again, or it is deleted."""
    for name in ("a", "b"):
        shop.says("create", name, "interval", "90s", "--target", "shop.sync", "--store", "redis")
        id_ = shop.schedules.get(name).schedule_id
        redis_client.hset("parrot:scheduler:scheduler_manager:jobs", id_, "nonsense")
    shown = shop.says("show", "a")
    assert "broken · redis store" in shown
    assert "cannot be computed: JSONDecodeError" in shown
    assert "misfire_grace" not in shown
    assert "schedule_type: is required" in shop.fails("update", "a", "target=shop.sync")
    mended = shop.json("update", "a", "--type", "daily", "--config", "9:00", "--target", "shop.sync")
    assert (mended["state"], mended["schedule_config"]) == ("active", {"hour": 9, "minute": 0, "second": 0})
    assert [each["action"] for each in shop.json("apply", "-", typed=documents("b", store="redis"))] == ["update"]
    assert shop.json("show", "b")["state"] == "active"
    assert shop.json("delete", "b", "--yes")["deleted"] is True
