"""Beats that die at a random instant: no due time lost, none run twice."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.chaos.lab import TAKEOVER, Lab, chance, instant_of_a_blow
from tests.support.procs import Proc
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wall_clock

pytestmark = [pytest.mark.timeout(240)]

SCHEDULES = 100
DOWN = 5.0


def _kill_one_and_restart_it(
    lab: Lab, victims: list[Proc], kill: Callable[[Proc], None], seed: int, *, full: bool, label: str
) -> None:
    """Judge a minute in which one of the victims is killed at a random instant and restarted 5 s later."""
    seconds = 60 if full else 10
    rng = chance(seed)
    victim = rng.choice(victims)
    window = lab.open_window(seconds)
    blow = instant_of_a_blow(rng, seed, window.first + 1, window.end - int(DOWN) - 1)
    lab.at(blow, f"the instant at which {victim.name} is killed")
    kill(victim)
    lab.at(wall_clock() + DOWN, f"{victim.name} to have been gone for {DOWN:g} s")
    victim.start()
    verdict = lab.close_window(window, label=label, afterwards=TAKEOVER)
    lab.check(verdict)
    lab.stays_alive(*lab.procs.all)
    lab.wait_ready(victim)
    lab.check_outcomes(window)
    lab.check_each_sends(victims)


def test_a_beat_is_killed(lab: Lab, private_redis: PrivateRedis, seed: int, full: bool) -> None:
    """Two beats and a worker, 100 schedules of one second: SIGKILL to one beat, restarted 5 s later. Every due time of
    the time watched is executed exactly once, a repeated message has the same task id."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=SCHEDULES)
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    _kill_one_and_restart_it(lab, beats, Proc.kill, seed, full=full, label="two beats, one killed")


def test_a_worker_with_an_embedded_beat_is_killed(lab: Lab, private_redis: PrivateRedis, seed: int, full: bool) -> None:
    """The same with ``worker -B`` on two workers instead of beats; the fires go to the queue of a third, so that what
    the killed one was running does not matter. The whole group is killed: Celery leaves an embedded beat alive."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=SCHEDULES, task_routes={"chaos.*": {"queue": "third"}})
    embedding = [
        lab.worker("-B", "-Q", f"own-{number}", "-s", f"own-{number}.db", concurrency=1, level="info")
        for number in (1, 2)
    ]
    lab.worker("-Q", "third")
    _kill_one_and_restart_it(lab, embedding, Proc.kill_group, seed, full=full, label="worker -B, one killed")


def test_a_beat_is_killed_before_rabbitmq(
    lab: Lab, private_redis: PrivateRedis, rabbitmq_url: str, seed: int, full: bool
) -> None:
    """The same with RabbitMQ as the broker and Redis for the coordination."""
    lab.set_up(rabbitmq_url, private_redis.url(), ticks=SCHEDULES)
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    _kill_one_and_restart_it(lab, beats, Proc.kill, seed, full=full, label="RabbitMQ, one of two beats killed")


@pytest.mark.long_form
def test_all_beats_are_killed_over_and_over(lab: Lab, private_redis: PrivateRedis, seed: int) -> None:
    """Whichever beat is next is killed every two to four seconds and comes back a second later, both at once now and
    then: a due time waits for a beat, and is never lost or doubled."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=50)
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    window = lab.open_window(30)
    rng = chance(seed)
    blow = window.first + rng.uniform(0, 2)
    while blow < window.end - 3:
        victims = beats if rng.random() < 0.2 else [rng.choice(beats)]
        lab.at(blow, "the next blow")
        for victim in victims:
            victim.kill()
        lab.at(blow + 1, "a second without them")
        for victim in victims:
            victim.start()
        blow = max(wall_clock(), blow + 1) + rng.uniform(2, 4)
    verdict = lab.close_window(window, label="beats killed over and over", afterwards=TAKEOVER)
    lab.check(verdict)


@pytest.mark.timeout(180)
def test_a_rolling_restart(
    lab: Lab, private_redis: PrivateRedis, make_proxy: Callable[..., TcpProxy], seed: int, full: bool
) -> None:
    """SIGTERM in the middle of sending, again and again, as a deploy does: a beat that ends in good order leaves no
    message that would be sent a second time, so each due time runs once also where no worker guards against it."""
    broker = make_proxy(private_redis.host, private_redis.port, delay=0.001)  # so that sending takes a while
    lab.set_up(broker.url("redis://{host}:{port}/1"), private_redis.url(), ticks=40)
    beats = [lab.beat(), lab.beat()]
    lab.worker(env={"CHAOS_PARROT": "0", "CHAOS_BROKER": private_redis.url(1)}, level="critical")
    rng = chance(seed)
    window = lab.open_window(40 if full else 9)
    second = window.first + 1
    while second < window.end - 1:
        lab.at(second + rng.uniform(0.06, 0.14), "one of the beats to be sending")
        for beat in beats:
            beat.send(signal.SIGTERM)
        for beat in beats:
            assert beat.wait(5) == 0, lab.explain()
            beat.start()
        lab.wait_ready(*beats)
        second = int(wall_clock()) + 2
    verdict = lab.close_window(window, label="rolling restart without Parrot(app)")
    lab.check(verdict)
    assert not verdict.repeated
