"""Real ``celery beat`` processes: what they send, how they start, and how they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import celery.beat
import psutil
import pytest

from tests.integration.beat.conftest import APP, Mailbox, env
from tests.support.procs import Procs
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic, wait_until

Beats = Callable[[], dict[str, dict[str, Any]]]
MakeMailbox = Callable[[str], Mailbox]


def a_second() -> float:
    """A second of an idle machine: ending an interpreter takes processor time, which neighbours may be using."""
    return max(1.0, 1.5 * os.getloadavg()[0] / (os.cpu_count() or 1))


READY = r"beat ready: scheduler_manager, coordination redis"


def assert_documented_forms(mail: Mailbox) -> None:
    """Every form of an entry was sent, and its options reached the message."""
    plain = mail.take("plain")
    assert (plain.headers["task"], plain.payload[0]) == ("t.remote", [16, 16])
    identity = plain.headers["parrot"]
    assert identity["scheduler"] == "scheduler_manager"
    assert (identity["schedule_id"], identity["name"], identity["kind"]) == ("seconds", "seconds", "task")
    assert (identity["origin"], identity["attempt"]) == ("schedule", 1)
    assert identity["fire_id"] == plain.headers["id"] == plain.properties["correlation_id"]
    assert (plain.headers["periodic_task_name"], plain.headers["celery_beat_task"]) == ("seconds", True)

    options = mail.take("options")
    assert options.payload[1] == {"word": "hello"}
    assert options.properties["priority"] == 7
    assert options.headers["mine"] == "yes"
    assert options.headers["parrot"]["name"] == "options"
    eta, expires = (datetime.fromisoformat(options.headers[key]) for key in ("eta", "expires"))
    assert expires - eta == pytest.approx(timedelta(seconds=30), abs=timedelta(seconds=1))

    assert [message.payload[0] for message in mail.several("lazy", 2)] == [[0], [1]]

    added = mail.take("added")
    assert (added.headers["task"], added.payload[0]) == ("t.local", ["added"])
    assert added.headers["parrot"]["name"] == "add every second"
    assert added.headers["expires"] is not None


def test_every_form_of_an_entry_is_sent(procs: Procs, private_redis: PrivateRedis, mailbox: MakeMailbox) -> None:
    """Redis for both. The entry whose schedule raises is reported once; all others run."""
    beat = procs.beat(APP, env=env(private_redis.url()))
    beat.wait_for_log(READY)
    assert_documented_forms(mailbox(private_redis.url()))
    assert beat.text().count("broken: broken, all others run: schedule = 'every now and then'") == 1
    assert "Traceback" not in beat.text()


def test_rabbitmq_as_broker_and_redis_as_coordinator(
    procs: Procs, private_redis: PrivateRedis, rabbitmq_url: str, mailbox: MakeMailbox
) -> None:
    """The same over AMQP, confirmed."""
    settings = env(rabbitmq_url, parrot_redis_url=private_redis.url(), task_queue_max_priority=None)
    procs.beat(APP, env=settings).wait_for_log(READY)
    assert_documented_forms(mailbox(rabbitmq_url))


def test_a_beat_says_who_it_is_and_takes_leave(procs: Procs, private_redis: PrivateRedis, beats: Beats) -> None:
    """In ``beats`` once it is ready; gone when it stopped in good order."""
    beat = procs.beat(APP, env=env(private_redis.url()))
    beat.wait_for_log(READY)
    (who,) = wait_until(beats, "the beat to be in beats").values()
    assert who["pid"] == beat.pid
    assert {"host", "version", "started", "seen", "skew", "tzdata"} <= who.keys()
    assert beat.terminate() == 0
    assert beats() == {}


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_beat_ends_within_a_second(procs: Procs, private_redis: PrivateRedis, stop: signal.Signals) -> None:
    beat = procs.beat(APP, env=env(private_redis.url()))
    beat.wait_for_log("sent$")
    start = monotonic()
    beat.send(stop)
    assert beat.wait(10) == 0
    assert monotonic() - start < a_second()
    assert "Traceback" not in beat.text()


@pytest.mark.parametrize("what", ["broker", "coordinator"])
def test_a_beat_ends_within_a_second_also_while_a_backend_hangs(
    procs: Procs, private_redis: PrivateRedis, make_redis: Any, make_proxy: Any, what: str
) -> None:
    broker = make_redis()
    proxy: TcpProxy = make_proxy("127.0.0.1", broker.port if what == "broker" else private_redis.port)
    through = proxy.url("redis://{host}:{port}/0")
    urls = (through, private_redis.url()) if what == "broker" else (broker.url(), through)
    beat = procs.beat(APP, env=env(urls[0], parrot_redis_url=urls[1]))
    beat.wait_for_log("sent$")
    proxy.stall()
    beat.wait_for_log("broker out of reach" if what == "broker" else "lock_unavailable")
    start = monotonic()
    beat.send(signal.SIGTERM)
    assert beat.wait(10) == 0
    assert monotonic() - start < 1.3 * a_second()  # a hanging tick is given 0.3 s


def test_two_beats_send_each_fire_once(
    procs: Procs, private_redis: PrivateRedis, mailbox: MakeMailbox, beats: Beats
) -> None:
    """Both active; when one leaves in good order, the other goes on without a gap."""
    settings = env(private_redis.url(), parrot=True)
    first, second = procs.beat(APP, env=settings), procs.beat(APP, env=settings)
    for beat in (first, second):
        beat.wait_for_log(READY)
    wait_until(lambda: len(beats()) == 2, "two beats")
    mail = mailbox(private_redis.url())
    found = mail.several("decorated", 3)
    assert first.terminate() == 0
    found += mail.several("decorated", 3)
    dues = [datetime.fromisoformat(message.headers["parrot"]["due_at"]) for message in found]
    assert len(set(dues)) == len(dues)
    assert max(dues) - min(dues) == timedelta(seconds=len(dues) - 1)


def test_a_restart_creates_no_due_time_and_loses_none(
    procs: Procs, private_redis: PrivateRedis, mailbox: MakeMailbox
) -> None:
    """A first start fires nothing that was due before; a restart soon after goes on where it was."""
    beat = procs.beat(APP, env=env(private_redis.url()))
    beat.wait_for_log(READY)
    mail = mailbox(private_redis.url())
    first = mail.take("plain")
    assert beat.terminate() == 0
    beat.start()
    dues = [datetime.fromisoformat(first.headers["parrot"]["due_at"])]
    dues += [datetime.fromisoformat(message.headers["parrot"]["due_at"]) for message in mail.several("plain", 4)]
    assert [later - dues[0] for later in dues] == [timedelta(seconds=n) for n in range(5)]
    assert "taken over" not in beat.text()


@pytest.mark.parametrize("crash", ["after-commit", "after-send"])
def test_a_beat_that_dies_between_two_steps_is_finished_by_another(
    procs: Procs, private_redis: PrivateRedis, mailbox: MakeMailbox, crash: str
) -> None:
    """The same task id, whoever sends it."""
    settings = env(private_redis.url(), parrot=True)
    dying = procs.beat(APP, env={**settings, "PARROT_TEST_CRASH": crash})
    assert dying.wait(20) == -signal.SIGKILL
    procs.beat(APP, env=settings)
    mail = mailbox(private_redis.url())
    found = mail.several("decorated", 4)
    ids: dict[str, set[str]] = {}
    for message in found:
        ids.setdefault(message.headers["parrot"]["due_at"], set()).add(message.headers["id"])
    assert all(len(one) == 1 for one in ids.values())
    dues = sorted(datetime.fromisoformat(due) for due in ids)
    assert dues[-1] - dues[0] == timedelta(seconds=len(dues) - 1)


# --- settings that cannot work ---


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"parrot_coordination": "rediss"}, "parrot_coordination = 'rediss': is not known here. Did you mean 'redis'?"),
        ({"parrot_kinds": {"r": {"queue": "q"}}}, "parrot_kinds['r'] = {'queue': 'q'}: a kind needs a task"),
        ({"parrot_fire_lock_ttl": 60}, "parrot_fire_lock_ttl = 60"),
        (
            {"parrot_coordination": "none", "parrot_max_concurrent": 3},
            "parrot_max_concurrent = 3: is a limit, and limits need a coordinator",
        ),
    ],
    ids=["coordination", "kind", "ttl", "limit"],
)
def test_a_bad_setting_ends_the_beat_with_one_sentence(procs: Procs, settings: dict[str, Any], sentence: str) -> None:
    beat = procs.beat(APP, level="warning", env=env("redis://:s3cret@127.0.0.1:1/0", **settings))
    assert beat.wait(20) == 1
    critical = [line for line in beat.text().splitlines() if "CRITICAL" in line]
    assert len(critical) == 1
    assert sentence in critical[0]
    assert "Traceback" not in beat.text()
    assert "s3cret" not in beat.text()


def test_a_bad_setting_ends_a_worker_with_one_sentence(procs: Procs, private_redis: PrivateRedis) -> None:
    worker = procs.worker(APP, "--pool", "solo", env=env(private_redis.url(), parrot=True, parrot_lease_ttl=0))
    assert worker.wait(20) == 1
    assert worker.text().count("parrot_lease_ttl = 0: must be a number above 0") == 1
    assert "Traceback" not in worker.text()


# --- Celery's own ways of running it ---


def test_the_banner_and_max_interval(procs: Procs, private_redis: PrivateRedis) -> None:
    beat = procs.beat(APP, "--max-interval", "5", env=env(private_redis.url()))
    beat.wait_for_log(READY)
    text = beat.text()
    assert "scheduler -> celery_parrot.runtime.scheduler.ParrotScheduler" in text
    assert f"coordination -> redis (redis://127.0.0.1:{private_redis.port}/0)" in text
    assert "maxinterval -> 5.00 seconds" in text


@pytest.mark.parametrize("name", ["parrot", "celery_parrot:ParrotScheduler"])
def test_the_scheduler_may_be_named_on_the_command_line(procs: Procs, private_redis: PrivateRedis, name: str) -> None:
    settings = env(private_redis.url(), beat_scheduler="celery.beat:PersistentScheduler")
    procs.beat(APP, "-S", name, env=settings).wait_for_log(READY)


def test_detached(procs: Procs, private_redis: PrivateRedis, tmp_path: Path, beats: Beats) -> None:
    pidfile, log = tmp_path / "beat.pid", tmp_path / "beat.log"
    arguments = ["--detach", "--logfile", str(log), "--pidfile", str(pidfile), "--loglevel", "info"]
    starter = procs.celery("starter", APP, "beat", *arguments, env=env(private_redis.url()))
    assert starter.wait(20) == 0
    wait_until(lambda: log.exists() and "sent" in log.read_text(), "the detached beat to send", 20)
    process = psutil.Process(int(pidfile.read_text()))
    (who,) = beats().values()
    assert who["pid"] == process.pid
    process.terminate()
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "it to end", 5)
    assert beats() == {}
    assert not pidfile.exists()


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_embedded_in_a_worker(procs: Procs, private_redis: PrivateRedis, beats: Beats, pool: str) -> None:
    """``worker -B``: its fires run, and it takes leave when the worker stops."""
    worker = procs.worker(APP, "-B", "--pool", pool, env=env(private_redis.url(), local=True, parrot=True))
    worker.wait_for_log(READY)
    worker.wait_for_log(r"Task t\.local\[.*\] succeeded")
    assert len(beats()) == 1
    assert worker.terminate() == 0
    assert beats() == {}
    assert "Traceback" not in worker.text()


@pytest.mark.skipif(not hasattr(celery.beat, "BeatPidbox"), reason="this Celery has no remote control of beats")
def test_a_beat_answers_ping(procs: Procs, private_redis: PrivateRedis) -> None:
    settings = env(private_redis.url())
    beat = procs.beat(APP, "--enable-remote-control", "--hostname", "parrot@test", env=settings)
    beat.wait_for_log("beat pidbox: Connected")
    beat.wait_for_log(READY)
    asked = procs.celery("ping", APP, "inspect", "ping", "-d", "parrot@test", "--timeout", "5", env=settings)
    assert asked.wait(20) == 0
    assert "pong" in asked.text()
    start = monotonic()
    assert beat.terminate() == 0
    assert monotonic() - start < 2  # Celery's pidbox thread looks once a second
