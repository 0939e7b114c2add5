"""Every verb when something it needs is not there, and a list of who has driven it as a process."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from celery import Celery
from click.testing import CliRunner, Result

from celery_parrot.cli import parrot
from celery_parrot.coordination.redis import PERMANENT_KEYS
from celery_parrot.stores.redis import PERMANENT_KEYS as PERMANENT_IN_STORE
from celery_parrot.stores.sql import upgrade
from tests.support.procs import ROOT
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port
from tests.support.waiting import monotonic

APP = """
import os
from celery import Celery
from celery_parrot import Parrot

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(result_expires=None, parrot_redis_url=os.environ["REDIS"], parrot_database_url=os.environ["DATABASE"])
parrot = Parrot(app)
"""

CALLS: Mapping[str, Sequence[str]] = {
    "list": (),
    "show": ("stock",),
    "next": ("stock",),
    "preview": ("interval", "90s"),
    "create": ("stock", "interval", "90s", "--target", "shop.sync"),
    "update": ("stock", "jitter=1"),
    "pause": ("stock",),
    "resume": ("stock",),
    "delete": ("stock", "--yes"),
    "run-now": ("stock",),
    "backfill": ("stock", "--from", "2026-01-01"),
    "fires": ("stock",),
    "why": ("stock",),
    "groups": (),
    "groups release": ("gpu", "--yes"),
    "beats": (),
    "health": (),
    "doctor": (),
    "export": (),
    "apply": ("FILE",),
    "import": ("redbeat", "REDIS"),
    "db upgrade": (),
    "db current": (),
    "db check": (),
}
"""How each verb is called; FILE and REDIS are filled in. ``flower`` is a server, and has tests of its own."""

NAMED = ("show", "next", "update", "pause", "resume", "delete", "run-now", "backfill", "fires", "why")
VERSIONED = ("update", "pause", "resume", "delete", "run-now")
ASK_NOBODY = ("preview",)
REPORTS = ("health", "doctor")
"""What they find is their answer, on stdout."""
ASK_THE_DATABASE_ONLY = ("db upgrade", "db current", "db check")
ASK_THE_COORDINATOR_ONLY = ("groups", "groups release", "beats", "health")

MISTYPED = r"There is no schedule 'stok'\. Did you mean stock\?"
STALE = "no longer at version 7, it is 1 now"
PATIENCE = 20
"""Seconds within which any verb has given up, on a machine that is busy with other tests."""

PROCESSES = ("e2e/test_cli*.py", "e2e/test_why.py", "e2e/flower", "integration/demands", "integration/client",
             "integration/importers")  # fmt: skip
"""Where tests call verbs as processes of their own."""


def verbs(group: click.Group = parrot, before: str = "") -> Iterator[str]:
    """Every word, or words, that do something."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield before + name
            yield from verbs(command, f"{before}{name} ")
        else:
            yield before + name


def driven() -> set[str]:
    """What tests hand to a process: the first words of ``ask("list", …)``, and of ``[…, "parrot", "list", …]``."""
    found: set[str] = set()
    for path in PROCESSES:
        for file in (ROOT / "tests").glob(path if path.endswith(".py") else f"{path}/*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                found.update(_words(node))
    return found


def _words(node: ast.AST) -> Iterator[str]:
    given = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.List) else []
    values = [getattr(one, "value", None) for one in given]
    if "parrot" in values:
        values = values[values.index("parrot") + 1 :]
    elif getattr(getattr(node, "func", None), "attr", "") not in ("ask", "json", "command"):
        return
    words = [one for one in values[:2] if isinstance(one, str)]
    yield from (" ".join(words[:count]) for count in (1, 2) if len(words) >= count)


def test_a_process_has_driven_every_verb() -> None:
    """Whoever adds one adds a test that calls it as people do, and its call to those of this file."""
    assert set(verbs()) == {*CALLS, "flower"}
    assert set(verbs()) - driven() == set()


# --- nobody listens, nobody answers ---


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield server.getsockname()[1]


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return (*PERMANENT_KEYS, *PERMANENT_IN_STORE)


@pytest.fixture
def words(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """A verb as it is called, on files that are there."""
    file = tmp_path / "stock.yaml"
    file.write_text("{name: stock, schedule_type: interval, schedule_config: {seconds: 9}, target: shop.sync}\n")

    def call(verb: str, redis: str) -> list[str]:
        known = {"FILE": str(file), "REDIS": redis}
        return [*verb.split(), *(known.get(word, word) for word in CALLS[verb])]

    return call


def one_sentence(verb: str, code: int, out: str, err: str, *, says: str) -> None:
    """A failure for people: on stderr, once, and the exit code tells it too."""
    told = out if verb in REPORTS else err
    assert code == 1, (verb, out, err)
    assert "Traceback" not in out + err, (verb, err)
    assert re.search(says, told), (verb, told)
    if verb not in REPORTS:
        assert out == "", (verb, out)
        assert len(re.findall("^Error: ", err, re.MULTILINE)) == 1, (verb, err)
        assert err.strip().splitlines()[-1].endswith((".", "?")), (verb, err)


# --- in this process ---


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_without_redis(how: str, words: Callable[[str, str], list[str]], tmp_path: Path) -> None:
    """Every verb that needs it says so, and those of the database do not mind."""
    with silent() as port:
        url = f"redis://127.0.0.1:{port if how == 'silent' else free_port()}/0"
        app = Celery("shop", broker="memory://", set_as_current=False)
        app.conf.update(
            result_expires=None, parrot_redis_url=url, parrot_database_url=f"sqlite:///{tmp_path}/shop.db",
            parrot_redis_options={"socket_timeout": 0.1, "socket_connect_timeout": 0.1},
        )  # fmt: skip
        for verb in ["db upgrade", *CALLS]:
            done = in_process(app, words(verb, url))
            if verb in (*ASK_NOBODY, *ASK_THE_DATABASE_ONLY):
                assert (done.exit_code, done.stderr) == (0, ""), (verb, done.output)
            else:
                one_sentence(verb, done.exit_code, done.stdout, done.stderr, says=f":{url[18:-2]}")


def test_without_the_database(words: Callable[[str, str], list[str]], redis_url: str) -> None:
    """Every verb that needs it says so, without the password."""
    app = Celery("shop", broker=redis_url, set_as_current=False)
    app.conf.update(result_expires=None, parrot_database_url=f"postgresql://u:s3cret@127.0.0.1:{free_port()}/shop")
    for verb in CALLS.keys() - {*ASK_NOBODY, *ASK_THE_COORDINATOR_ONLY, "import"}:  # RedBeat's keys are there, and none
        done = in_process(app, words(verb, redis_url))
        one_sentence(verb, done.exit_code, done.stdout, done.stderr, says="The database at postgresql://u:")
        assert "s3cret" not in done.output, verb


def test_wrong_names_and_stale_versions(words: Callable[[str, str], list[str]], redis_url: str) -> None:
    """Every verb that takes a name offers the closest; every one that takes a version refuses another one's."""
    app = Celery("shop", broker=redis_url, set_as_current=False)
    app.conf.update(result_expires=None)
    assert in_process(app, words("create", redis_url)).exit_code == 0
    for verb in NAMED:
        done = in_process(app, [mistyped(word) for word in words(verb, redis_url)])
        one_sentence(verb, done.exit_code, done.stdout, done.stderr, says=MISTYPED)
    for verb in VERSIONED:
        done = in_process(app, [*words(verb, redis_url), "--version", "7"])
        one_sentence(verb, done.exit_code, done.stdout, done.stderr, says=STALE)


def mistyped(word: str) -> str:
    return "stok" if word == "stock" else word


def in_process(app: Celery, arguments: Sequence[str]) -> Result:
    """As ``celery -A app parrot ARGUMENTS``; what no verb may let out comes out here."""
    return CliRunner().invoke(parrot, list(arguments), obj=SimpleNamespace(app=app), catch_exceptions=False)


# --- as processes ---


@dataclass(frozen=True)
class Servers:
    """What the app of a process is set to."""

    broker: str
    redis: str
    database: str

    def start(self, directory: Path, *arguments: str) -> subprocess.Popen[str]:
        (directory / "shop.py").write_text(APP)
        env = {"BROKER": self.broker, "REDIS": self.redis, "DATABASE": self.database}
        return subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "shop", "parrot", *arguments], cwd=directory, text=True,
            env={**os.environ, **env, "PYTHONPATH": os.pathsep.join([str(ROOT), str(directory)])},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def servers(private_redis: PrivateRedis, tmp_path: Path) -> Servers:
    """All are well."""
    database = f"sqlite:///{tmp_path}/shop.db"
    upgrade(database)
    return Servers(private_redis.url(), private_redis.url(), database)


def broken(well: Servers, how: str, port: int) -> Servers:
    """With one of them on a port where nobody answers."""
    return {
        "redis": replace(well, redis=f"redis://127.0.0.1:{port}/0"),
        "postgresql": replace(well, database=f"postgresql://u@127.0.0.1:{port}/shop"),
        "mysql": replace(well, database=f"mysql://u@127.0.0.1:{port}/shop"),
        "broker": replace(well, broker=f"redis://127.0.0.1:{port}/1"),
        "rabbitmq": replace(well, broker=f"amqp://127.0.0.1:{port}//"),
    }[how]


def ended(process: subprocess.Popen[str], verb: str, says: str, *, within: float = PATIENCE) -> None:
    out, err = process.communicate(timeout=within)
    one_sentence(verb, process.returncode, out, err, says=says)


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("long_form")
def test_nobody_is_waited_for(servers: Servers, tmp_path: Path) -> None:
    """A server that takes connections and says nothing is given up within seconds, and the process ends."""
    with silent() as port, ExitStack() as stack:
        asked = [("redis", "pause", "pause stock"), ("mysql", "list", "list"), ("rabbitmq", "doctor", "doctor")]
        running = [
            (verb, stack.enter_context(broken(servers, how, port).start(tmp_path, *line.split())))
            for how, verb, line in asked
        ]
        began = monotonic()
        for verb, process in running:
            stack.callback(process.kill)
            ended(process, verb, "cannot be (reached|asked)")
        assert monotonic() - began < PATIENCE


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("long_form")
@pytest.mark.parametrize("verb", CALLS)
def test_every_verb_every_failure(
    verb: str, servers: Servers, tmp_path: Path, words: Callable[[str, str], list[str]]
) -> None:
    """As people would see it: the wrong name, the stale version, each server refused and silent."""
    app = Celery("shop", broker=servers.broker, set_as_current=False)
    app.conf.update(result_expires=None, parrot_database_url=servers.database)
    created = in_process(app, [*words("create", ""), "--store", "redis"])
    assert created.exit_code == 0, created.output
    line = words(verb, servers.redis)
    asked: list[tuple[Servers, Sequence[str], str]] = []
    if verb in NAMED:
        asked.append((servers, list(map(mistyped, line)), MISTYPED))
    if verb in VERSIONED:
        asked.append((servers, [*line, "--version", "7"], STALE))
    untouched = {
        "redis": (*ASK_NOBODY, *ASK_THE_DATABASE_ONLY),
        "postgresql": (*ASK_NOBODY, *ASK_THE_COORDINATOR_ONLY, "import"),
        "mysql": (*ASK_NOBODY, *ASK_THE_COORDINATOR_ONLY, "import"),
        "broker": CALLS.keys() - {"doctor"},
        "rabbitmq": CALLS.keys() - {"doctor"},
    }
    with silent() as deaf, ExitStack() as stack:
        for how in (how for how, others in untouched.items() if verb not in others):
            for port in (free_port(), deaf):
                there = broken(servers, how, port)
                asked.append((there, words(verb, there.redis), f"127.0.0.1:{port}|The broker cannot be asked"))
        running = [(stack.enter_context(there.start(tmp_path, *call)), says) for there, call, says in asked]
        for process, says in running:
            stack.callback(process.kill)
            ended(process, verb, says, within=60)  # up to ten start at once
