"""Beats that stand still for a while, and beats whose clock is wrong."""

from __future__ import annotations

import pytest

from tests.chaos.lab import TAKEOVER, Lab, chance
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wall_clock

TICKS = 50


@pytest.mark.timeout(240)
def test_a_frozen_beat(lab: Lab, private_redis: PrivateRedis, seed: int, full: bool) -> None:
    """SIGSTOP in the middle of its work, the other goes on alone; after SIGCONT the frozen one, whose idea of what it
    owns is old, doubles nothing."""
    frozen = 30 if full else 6
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    lab.wait_ready(*beats)
    rng = chance(seed)
    window = lab.open_window(frozen + 6)
    victim = rng.choice(beats)
    lab.at(window.first + 1 + rng.uniform(0.0, 0.12), "the beat to be at work on a due time")
    victim.pause()
    lab.at(wall_clock() + frozen, f"{frozen} s of standing still")
    victim.resume()
    verdict = lab.close_window(window, label=f"a beat frozen for {frozen} s", afterwards=TAKEOVER)
    lab.check(verdict)
    lab.stays_alive(*beats)
    lab.check_outcomes(window)


@pytest.mark.parametrize("offset", [30, pytest.param(-30, marks=pytest.mark.long_form)])
def test_a_beat_with_a_wrong_clock(lab: Lab, private_redis: PrivateRedis, offset: int) -> None:
    """A beat whose clock is 30 s off does its share of the work by the coordinator's clock, and warns."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    wrong = lab.beat(env={"PARROT_TEST_CLOCK_OFFSET": str(offset)})
    right = lab.beat()
    lab.worker()
    lab.wait_ready(wrong, right)
    window = lab.open_window(6)
    verdict = lab.close_window(window, label=f"a clock {offset:+} s off")
    lab.check(verdict)
    assert "[clock-skew]" in wrong.text(), f"no warning of the wrong clock\n{wrong.tail()}"
    side = "ahead of" if offset > 0 else "behind"
    assert f"s {side}" in wrong.text()
    assert "[clock-skew]" not in right.text()
    lab.check_outcomes(window)
    lab.check_each_sends([wrong, right])


@pytest.mark.long_form
def test_alone_with_a_wrong_clock(lab: Lab, private_redis: PrivateRedis) -> None:
    """Without another beat the wrong clock changes nothing either: nothing early, nothing late, nothing missed."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    beat = lab.beat(env={"PARROT_TEST_CLOCK_OFFSET": "3600"})
    lab.worker()
    lab.wait_ready(beat)
    window = lab.open_window(10)
    lab.check(lab.close_window(window, label="alone with a clock an hour off"))
    lab.check_outcomes(window)
