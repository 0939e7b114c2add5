"""The coordinator's clock as a process knows it between two calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from celery_parrot.dispatch.timekeeper import STEP, Timekeeper
from celery_parrot.testing import FakeClock

TRUE = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Coordinator:
    """Answers with its clock, ``offset`` seconds from the true time, after ``there`` and ``back`` seconds."""

    def __init__(self, clock: FakeClock, keeper: Timekeeper) -> None:
        self.clock, self.keeper, self.offset = clock, keeper, 0.0

    def true(self) -> datetime:
        return self.clock.now() - timedelta(seconds=self.clock.offset)

    def ask(self, there: float = 0.001, back: float = 0.001) -> None:
        asked = self.clock.monotonic()
        self.clock.advance(there)
        answer = self.true() + timedelta(seconds=self.offset)
        self.clock.advance(back)
        self.keeper.observe(answer, asked, self.clock.monotonic())

    def error(self) -> float:
        """Seconds by which the keeper is ahead of this coordinator."""
        return (self.keeper.now() - self.true()).total_seconds() - self.offset


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(TRUE, offset=30.0)


@pytest.fixture
def coordinator(clock: FakeClock) -> Coordinator:
    return Coordinator(clock, Timekeeper(clock))


def test_before_the_first_reading_nothing_is_known(clock: FakeClock) -> None:
    """Not steady, no skew, no guess."""
    keeper = Timekeeper(clock)
    assert (keeper.steady, keeper.skew) == (False, 0.0)
    with pytest.raises(RuntimeError, match="never read"):
        keeper.now()


def test_it_follows_the_coordinator_between_calls(clock: FakeClock, coordinator: Coordinator) -> None:
    """On the monotonic clock, so that this machine's wall clock plays no part."""
    coordinator.ask()
    clock.advance(100)
    assert coordinator.error() == pytest.approx(0, abs=0.001)
    clock.offset = -3600.0
    assert coordinator.error() == pytest.approx(0, abs=0.001)


def test_skew_is_how_far_this_wall_clock_is_ahead(clock: FakeClock, coordinator: Coordinator) -> None:
    """30 s ahead, then 5 s behind."""
    coordinator.ask()
    assert coordinator.keeper.skew == pytest.approx(30, abs=0.001)
    clock.offset = -5.0
    assert coordinator.keeper.skew == pytest.approx(-5, abs=0.001)


@pytest.mark.parametrize(("there", "back"), [(6.0, 0.0), (0.0, 6.0), (3.0, 3.0)])
def test_a_slow_first_answer_never_puts_it_ahead(coordinator: Coordinator, there: float, back: float) -> None:
    """Wherever the time went: behind by a round trip at most, so nothing is sent before it is due."""
    coordinator.ask(there, back)
    assert -6.0 <= coordinator.error() <= 0.051


@pytest.mark.parametrize(("there", "back"), [(6.0, 0.0), (0.0, 6.0)])
def test_a_quick_answer_after_a_slow_first_is_no_step(coordinator: Coordinator, there: float, back: float) -> None:
    """It mends the estimate at once; nobody is told that the coordinator's clock had stepped."""
    coordinator.ask(there, back)
    coordinator.ask()
    assert coordinator.keeper.steady
    assert coordinator.error() == pytest.approx(0, abs=0.002)


def test_a_slow_answer_does_not_spoil_a_good_estimate(coordinator: Coordinator) -> None:
    """It is not taken over, only agreed with."""
    coordinator.ask()
    coordinator.ask(there=0.0, back=2.0)
    assert coordinator.keeper.steady
    assert coordinator.error() == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize("step", [STEP + 0.1, -STEP - 0.1, 3600, -86_400])
def test_a_step_pauses_until_two_readings_agree(coordinator: Coordinator, step: float) -> None:
    """One reading that contradicts the others is a suspicion; a second that agrees with it is the time."""
    coordinator.ask()
    coordinator.offset = step
    coordinator.ask()
    assert not coordinator.keeper.steady
    assert (coordinator.keeper.now() - coordinator.true()).total_seconds() == pytest.approx(0, abs=0.01)
    coordinator.ask()
    assert coordinator.keeper.steady
    assert coordinator.error() == pytest.approx(0, abs=0.01)


def test_a_single_wrong_reading_is_forgotten(coordinator: Coordinator) -> None:
    """The next that agrees with the old estimate ends the suspicion."""
    coordinator.ask()
    coordinator.offset = 50.0
    coordinator.ask()
    coordinator.offset = 0.0
    coordinator.ask()
    assert coordinator.keeper.steady
    assert coordinator.error() == pytest.approx(0, abs=0.01)


def test_small_drift_is_followed(clock: FakeClock, coordinator: Coordinator) -> None:
    """A coordinator whose clock runs 1 % fast is followed without a word."""
    for n in range(200):
        coordinator.offset = 0.01 * n
        coordinator.ask()
        clock.advance(1)
        assert coordinator.keeper.steady
    assert coordinator.error() == pytest.approx(0, abs=0.05)
