"""No password is shown where people look, and a Redis user with the documented rights is enough for everything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from celery_parrot.coordination.redis import COMMANDS
from celery_parrot.stores.redis import COMMANDS as STORE_COMMANDS
from tests.support.procs import ROOT, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port, unique
from tests.support.waiting import wait_until

APP = "tests.e2e.apps.stores"
NAME = "scheduler_manager"
SECRET = "hunter2/s3cr@t"
TOKEN = "tok3nOfACallback"
KEY = "c2VjcmV0LWtleS1vZi1hLXdlYmhvb2stcmVjZWl2ZXI="
RULE = re.search(r"```\nACL SETUSER parrot on >secret (.*?)```", (ROOT / "docs" / "redis.md").read_text(), re.DOTALL)


class Told(NamedTuple):
    """What a verb said. ``arguments`` without ``parrot``."""

    arguments: Sequence[str]
    code: int
    output: str


class Place:
    """Every server with a password of its own that must not be seen."""

    def __init__(self, redis: PrivateRedis, database: str, procs: Procs) -> None:
        self.redis, self.procs = redis, procs
        self.settings: dict[str, Any] = {
            "result_backend": self._redis("all", 1),
            "parrot_redis_url": self._redis("parrot", 0),
            "parrot_database_url": database,
            "parrot_smtp_url": f"smtp://me:{quote(SECRET, safe='')}@127.0.0.1:{free_port()}",
            "parrot_mail_from": "parrot@example.com",
            "parrot_alert_recipients": "ops@example.com",
            "parrot_webhook_allow": ["127.0.0.1"],
            "parrot_max_consecutive_failures": 1,
        }
        assert RULE is not None
        with redis.client() as admin:
            admin.execute_command("ACL", "SETUSER", "parrot", "on", f">{SECRET}", *RULE[1].split())
            admin.execute_command("ACL", "SETUSER", "all", "on", f">{SECRET}", "~*", "&*", "+@all")

    def _redis(self, user: str, db: int) -> str:
        return f"redis://{user}:{quote(SECRET, safe='')}@{self.redis.host}:{self.redis.port}/{db}"

    def environment(self, **other: Any) -> dict[str, str]:
        return {"TEST_BROKER": self._redis("all", 2), "TEST_SETTINGS": json.dumps({**self.settings, **other})}

    def ask(self, verbs: Sequence[Sequence[str]], environment: Mapping[str, str] | None = None) -> list[Told]:
        """What these verbs say, and what they log."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or self.environment())}
        found = subprocess.run(
            [sys.executable, "-m", "tests.e2e.apps.verbs", APP],
            input=json.dumps([["parrot", *verb] for verb in verbs]),
            env=env, cwd=self.procs.directory.parent, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        hidden(found.stderr)
        return [Told(verb, *told) for verb, told in zip(verbs, json.loads(found.stdout), strict=True)]


def hidden(text: str, *secrets: str) -> None:
    """None of them is in it, however it is written."""
    for secret in secrets or (SECRET, TOKEN, KEY):
        for form in {secret, quote(secret), quote(secret, safe=""), repr(secret)[1:-1]}:
            assert form not in text, "\n".join(line for line in text.splitlines() if form in line)


@pytest.fixture
def place(private_redis: PrivateRedis, postgresql_url: str, procs: Procs) -> Iterator[Place]:
    role = f"parrot_test_{unique(12)}"
    parts = urlsplit(postgresql_url)
    own = f"{role}:{quote(SECRET, safe='')}@{parts.hostname}:{parts.port or 5432}"
    with psycopg.connect(postgresql_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{SECRET}'".encode())
        yield Place(private_redis, parts._replace(netloc=own).geturl(), procs)
        procs.close()
        admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_the_documented_rights_are_those_of_the_code() -> None:
    """And nothing besides: no key and no channel but those of the prefix."""
    assert RULE is not None
    prefix = f"parrot:scheduler:{NAME}:"
    wanted = {f"+{name}" for name in COMMANDS | STORE_COMMANDS}
    assert set(RULE[1].split()) == {f"~{prefix}*", f"&{prefix}wake", "-@all", *wanted}


CALLBACKS = [
    {"type": "webhook", "url": f"http://127.0.0.1:{free_port()}/{TOKEN}?key={TOKEN}", "secret": f"whsec_{KEY}"},
    {"type": "email", "to": "ops@example.com"},
    {"type": "task", "task": "t.note", "kwargs": {"key": TOKEN}},
]
WHEN = {"schedule_type": "interval", "schedule_config": {"seconds": 1}, "exclusion_group": "press"}


def documents() -> list[dict[str, Any]]:
    """One that succeeds and tells of it, in Redis; one that fails, in the database, whose alert cannot be sent."""
    good = {"name": "good", "store": "redis", "target": "t.note", "callbacks": CALLBACKS, "options": {"queue": "work"}}
    bad = {"name": "bad", "store": "db", "target": "t.absent", "failure_callbacks": CALLBACKS[:1]}
    return [{**good, **WHEN}, {**bad, **WHEN, "options": {"queue": "work"}}]


VERBS: list[list[str]] = [
    ["list"], ["show", "good"], ["show", "bad"], ["next", "good"], ["preview", "interval", "5"],
    ["create", "third", "interval", "600", "--target", "t.note", "--store", "redis"],
    ["update", "third", "--kwargs", '{"a": 1}'], ["pause", "third", "--note", "x"], ["resume", "third"],
    ["run-now", "third"], ["fires", "good"], ["why", "good"], ["why", "bad"], ["groups"], ["beats"],
    ["health", "--timeout", "5"], ["doctor"], ["export"], ["apply", "FILE", "--dry-run"],
    ["backfill", "third", "--from", "2020-01-01", "--to", "2020-01-02", "--dry-run"], ["db", "current"],
    ["db", "check"], ["delete", "third", "--yes"], ["import", "shelve", "nothing-there"],
]  # fmt: skip
MAY_FAIL = ("backfill", "import", "doctor")
"""History does not go back so far; there is no such file; the alert cannot be sent."""


@pytest.mark.timeout(180)
def test_nobody_shows_a_password_and_the_documented_user_suffices(place: Place, tmp_path: Path) -> None:
    """A beat and a worker at debug level, every verb, deliveries that fail, ``celery report``. Of Redis nothing is
    asked that the user may not do, but for doctor's look at all keys."""
    file = tmp_path / "schedules.json"
    file.write_text(json.dumps(documents()))
    first = place.ask([["db", "upgrade"], ["apply", str(file), "--yes"]])
    assert [told.code for told in first] == [0, 0], first
    report = place.procs.celery("report", APP, "report", env=place.environment())
    beat = place.procs.beat(APP, level="debug", env=place.environment())
    worker = place.procs.worker(APP, "-Q", "work,celery", level="debug", env=place.environment())
    for sign in (r"webhook.* was not delivered", r"email.* was not delivered", r"disabled after"):
        worker.wait_for_log(sign, 40)
    told = place.ask([[str(file) if one == "FILE" else one for one in verb] for verb in VERBS])
    for one in told:
        assert one.code == 0 or one.arguments[0] in MAY_FAIL, one
        assert "Traceback" not in one.output, one.output
        assert "NoPermission" not in one.output, one.output
        hidden(one.output, *((SECRET,) if one.arguments[0] == "export" else ()))
    assert TOKEN in next(one for one in told if one.arguments == ["export"]).output, "export has the whole"
    assert report.wait(60) == 0
    for proc in (report, beat, worker):
        hidden(proc.text())
    assert str(place.redis.port) in beat.text()
    with place.redis.client() as admin:
        log = cast(Any, admin.acl_log())
        refused = {str(entry["object"]).partition("|")[0] for entry in log}
        assert refused <= {"client", "scan"}, refused
        strange = [key for key in admin.keys("*") if not str(key).startswith(f"parrot:scheduler:{NAME}:")]
    assert not strange


@pytest.mark.usefixtures("long_form")
def test_errors_show_no_password_either(place: Place, full: bool) -> None:
    """Of servers that are not there, that refuse the password, and of settings that cannot work. The short form tries
    two of them."""
    port = free_port()
    password = quote(SECRET, safe="")
    wrong: list[tuple[str, Any]] = [
        ("parrot_redis_url", f"redis://u:{password}@127.0.0.1:{port}/0"),
        ("parrot_redis_options", {"password": SECRET, "colour": SECRET}),
        ("parrot_redis_url", f"nothing://u:{password}@h"),
        ("parrot_database_url", f"postgresql://u:{password}@127.0.0.1:{port}/d"),
        ("parrot_database_url", f"oracle://u:{password}@h/d"),
        ("parrot_smtp_url", f"http://u:{password}@h"),
    ]
    verbs = [["doctor"], ["list"], ["health"], ["create", "x", "interval", "5", "--target", "t.note"]]
    for key, value in wrong if full else wrong[:2]:
        for told in place.ask(verbs, place.environment(**{key: value})):
            assert told.code != 0 or key == "parrot_database_url", told
            hidden(told.output)
            assert "Traceback" not in told.output, told.output
    with place.redis.client() as admin:
        admin.execute_command("ACL", "SETUSER", "parrot", "resetpass", ">another")
    beat = place.procs.beat(APP, level="debug", env=place.environment())
    wait_until(lambda: "lock_unavailable" in beat.text(), "the beat to say that it is refused", 20, explain=beat.tail)
    hidden(beat.text())
