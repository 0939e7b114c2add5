"""How a beat is chosen, started and stopped."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.lab import Lab
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic, wait_until

TICKS = 10


@pytest.mark.timeout(120)
def test_the_three_ways_to_choose_it(lab: Lab, private_redis: PrivateRedis) -> None:
    """``-S parrot``, ``beat_scheduler="parrot"`` and ``"celery_parrot:ParrotScheduler"`` are one scheduler: three
    beats, each started in one of the ways, share one code schedule, and every due time runs once."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    beats = [
        lab.beat("-S", "parrot", env=lab.with_conf(beat_scheduler="celery.beat:PersistentScheduler")),
        lab.beat(env=lab.with_conf(beat_scheduler="parrot")),
        lab.beat(env=lab.with_conf(beat_scheduler="celery_parrot:ParrotScheduler")),
    ]
    lab.worker()
    lab.wait_ready(*beats)
    window = lab.open_window(8)
    lab.check(lab.close_window(window, label="three beats, three ways to choose the scheduler"))
    lab.check_outcomes(window)
    lab.check_each_sends(beats)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_beat_ends_cleanly_in_under_a_second(lab: Lab, private_redis: PrivateRedis, sig: signal.Signals) -> None:
    """At work and asleep: exit code 0, and gone from the hash of beats, so that nobody waits for it."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    busy = lab.beat()
    idle = lab.beat(env={"CHAOS_TICKS": "0", **lab.with_conf(parrot_name="idle")})
    lab.wait_ready(busy)
    wait_until(lambda: idle.pid in lab.beats("idle"), "the idle beat to beat", 30, explain=idle.tail)
    wait_until(lambda: lab.sent_by(busy), "the busy beat to be at work", 30, explain=busy.tail)
    for beat, name in ((busy, lab.name), (idle, "idle")):
        started = monotonic()
        beat.send(sig)
        assert beat.wait(10) == 0, beat.tail()
        took = monotonic() - started
        assert took < 1.0, f"{beat.name} took {took:.2f} s to end\n{beat.tail()}"
        assert beat.pid not in lab.beats(name)
        assert "Traceback" not in beat.text()


@pytest.mark.timeout(120)
def test_a_beat_ends_although_the_coordinator_is_away(lab: Lab, private_redis: PrivateRedis) -> None:
    """Neither a frozen coordinator nor a dead one keeps a beat from ending cleanly."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    beats = [lab.beat(), lab.beat()]
    lab.wait_ready(*beats)
    private_redis.pause()
    for beat in beats:
        beat.wait_for_log(r"lock_unavailable", 30)
    started = monotonic()
    assert beats[0].terminate(15) == 0
    lab.say(f"SIGTERM with a frozen Redis: ended in {monotonic() - started:.2f} s")
    private_redis.resume()
    private_redis.kill()
    assert beats[1].terminate(15) == 0
    assert monotonic() - started < 10


@pytest.mark.timeout(120)
def test_detached(lab: Lab, private_redis: PrivateRedis) -> None:
    """``celery beat --detach`` leaves a beat in the background, with its log and pid file, and it beats."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=1)
    directory = lab.procs.directory
    directory.mkdir(parents=True, exist_ok=True)
    pidfile, log = directory / "detached.pid", directory / "detached.log"
    starter = lab.procs.celery(
        "starter", "tests.chaos.app", "beat", "--detach", "--loglevel", "info",
        "--pidfile", str(pidfile), "--logfile", str(log), env=lab.environment,
    )  # fmt: skip
    assert starter.wait(30) == 0, starter.tail()
    lab.worker()
    lab.wait_for_runs(2)
    pid = int(pidfile.read_text())
    assert pid in lab.beats()
    assert pid in {stray.pid for stray in lab.procs.strays()}
