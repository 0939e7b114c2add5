"""Processes under test: their groups, their logs, and that none outlives its test."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.support.procs import Procs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

SLEEP = "import time; print('ready'); time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).wait()"
DETACHED = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(600)"


def test_output_goes_to_a_file_and_can_be_waited_for(procs: Procs) -> None:
    """The log is readable while the process runs; env reaches it."""
    proc = procs.python("hello", "-c", "import os; print('due', os.environ['N']); " + SLEEP, env={"N": "7"})
    assert proc.wait_for_log(r"due (\d)").group(1) == "7"
    assert proc.alive


def test_waiting_for_a_log_line_ends_when_the_process_does(procs: Procs) -> None:
    """Nobody waits 20 s for a process that crashed; its traceback is the message."""
    proc = procs.python("crash", "-c", "raise SystemExit('no such setting')")
    with pytest.raises(AssertionError, match=r"(?s)crash ended \(exit code 1\).*no such setting"):
        proc.wait_for_log("ready", 60)


def test_kill_spares_the_children_and_kill_group_does_not(procs: Procs) -> None:
    """The two ways in which a worker dies: alone, or with its whole pool."""
    proc = procs.python("parent", "-c", PARENT)
    proc.wait_for_log("ready")
    (child,) = proc.children()
    proc.kill(signal.SIGKILL)
    assert proc.returncode == -signal.SIGKILL
    assert child.is_running()
    proc.kill_group()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child to die", 5)


def test_a_process_can_be_started_again_into_the_same_log(procs: Procs) -> None:
    """As a supervisor would, 5 s after a kill."""
    proc = procs.python("again", "-c", SLEEP)
    proc.wait_for_log("ready")
    proc.kill()
    proc.start()
    proc.wait_for_log("ready\nready")


def test_a_paused_process_is_alive_and_silent(procs: Procs) -> None:
    """SIGSTOP freezes the group; SIGCONT lets it go on."""
    proc = procs.python("frozen", "-c", SLEEP)
    proc.wait_for_log("ready")
    proc.pause()
    wait_until(lambda: psutil.Process(proc.pid).status() == psutil.STATUS_STOPPED, "the process to stop", 5)
    assert proc.alive
    proc.resume()
    assert proc.terminate() == -signal.SIGTERM


@pytest.mark.parametrize("program", [PARENT, STUBBORN, DETACHED], ids=["with a child", "ignoring TERM", "detached"])
def test_nothing_outlives_the_test(tmp_path: Path, program: str) -> None:
    """Children, programs that ignore SIGTERM, and daemons that left the group are all gone after close()."""
    procs = Procs(tmp_path)
    proc = procs.python("program", "-c", program)
    wait_until(lambda: "ready" in proc.text(), "the program to be ready", 10)
    started = procs.strays()
    assert started
    procs.close(grace=0.3)
    assert not procs.strays()


def test_a_failing_test_shows_the_end_of_each_log(procs: Procs) -> None:
    """What report_sections() returns is what pytest prints under the failure."""
    procs.python("beat-1", "-c", "print('cannot reach Redis')").wait(10)
    ((title, text),) = procs.report_sections()
    assert title.startswith("beat-1 pid ")
    assert "exit code 0" in title
    assert text == "cannot reach Redis"


def test_celery_processes_start_run_and_end(procs: Procs, redis_url: str) -> None:
    """A stock beat and a stock worker find the app, share the broker and end cleanly on SIGTERM."""
    env = {"BROKER": redis_url}
    beat = procs.beat("tests.support.plain_app", "--schedule", "beat.db", env=env)
    worker = procs.worker("tests.support.plain_app", env=env)
    worker.wait_for_log("the task ran", 30)
    assert beat.name == "beat-1"
    assert beat.terminate() == 0
    assert worker.terminate() == 0


def test_a_worker_dies_with_its_pool_and_its_embedded_beat(procs: Procs, redis_url: str) -> None:
    """Killing the worker alone would leave them behind; kill_group leaves nothing."""
    worker = procs.worker(
        "tests.support.plain_app", "-B", "--schedule", "beat.db", name="embedded", env={"BROKER": redis_url}
    )
    worker.wait_for_log("the task ran", 30)
    assert len(procs.strays()) >= 3  # the worker, its pool, its beat
    worker.kill_group()
    wait_until(lambda: not procs.strays(), "the embedded beat and the pool to die", 10, explain=procs.strays)
