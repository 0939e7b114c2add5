"""The judgement itself: what it calls lost, doubled, early or wrongly named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.chaos.journal import Received, Run, Verdict, Window, fire_id, judge, quantile

NAME = "scheduler_manager"
FIRST = 1_800_000_000
WINDOW = Window(("a", "b"), FIRST, 3)


def _run(name: str, second: int, late: float = 0.1) -> Run:
    due_at = datetime.fromtimestamp(FIRST + second, UTC)
    identity = fire_id(NAME, (name, due_at))
    started = due_at.timestamp() + late
    return Run("ran", name, NAME, identity, identity, due_at, "schedule", 1, 0, started, started, 1, "w")


RUNS = [_run(name, second) for name in ("a", "b") for second in range(3)]


def _judge(runs: list[Run], received: list[Received] | None = None, **options: set[tuple[str, datetime]]) -> Verdict:
    return judge(WINDOW, runs, received or [], scheduler=NAME, **options)


def test_each_once_is_exact() -> None:
    """Notes from outside the window or of another scheduler do not count."""
    others = [_run("a", 3), replace(_run("a", 0), scheduler="other"), replace(_run("a", 0), what="done")]
    verdict = _judge([*RUNS, *others])
    assert verdict.exact
    verdict.assert_exact()
    assert "due 6, executed 6, doubled 0, lost 0" in verdict.figures()


def test_a_due_time_without_a_run_is_lost() -> None:
    """It is named, with what the caller knows of it."""
    with pytest.raises(AssertionError, match=r"(?s)lost: b due 2027-01-15T08:00:02\+00:00.*the logs say"):
        _judge(RUNS[:-1]).assert_exact(lambda dues: "the logs say")


def test_a_due_time_with_two_runs_is_doubled() -> None:
    """Both runs are shown."""
    with pytest.raises(AssertionError, match=r"(?s)doubled: a due .*\+0\.100 s.*\+0\.900 s"):
        _judge([*RUNS, _run("a", 1, late=0.9)]).assert_exact()


def test_a_run_before_its_due_time_is_early() -> None:
    """A clock that is off must not show."""
    assert not _judge([*RUNS[1:], _run("a", 0, late=-1.0)]).exact


def test_a_foreign_task_id_is_wrong() -> None:
    """The id follows from the due time alone."""
    assert not _judge([*RUNS[1:], replace(RUNS[0], task_id="another")]).exact


def test_a_repeated_message_must_have_the_same_task_id() -> None:
    """The same id twice is counted as a repeat; another one is a fault."""
    run = RUNS[0]
    message = Received(run.task_id, run.fire_id, run.due)
    verdict = _judge(RUNS, [message, message])
    assert verdict.exact
    assert verdict.repeated == {run.due}
    assert not _judge(RUNS, [message, replace(message, task_id="another")]).exact


def test_what_was_missed_must_not_run() -> None:
    """Missed by policy and not run is right, run as well is doubled."""
    excused = {RUNS[0].due}
    assert _judge(RUNS[1:], excused=excused).exact
    assert not _judge(RUNS, excused=excused).exact


def test_what_may_repeat_may_be_lost_or_run_twice_but_not_thrice() -> None:
    """What was in flight when the coordinator forgot."""
    lenient = {RUNS[0].due}
    assert _judge(RUNS[1:], may_repeat=lenient).exact
    assert _judge([*RUNS, _run("a", 0)], may_repeat=lenient).exact
    assert not _judge([*RUNS, _run("a", 0), _run("a", 0)], may_repeat=lenient).exact


def test_a_window_of_slower_schedules() -> None:
    """Due times are aligned to 1970."""
    window = Window(("a",), FIRST + 1, 10, every=5)
    assert {due_at for _, due_at in window.dues()} == {
        datetime.fromtimestamp(FIRST, UTC) + timedelta(seconds=5 * number) for number in (1, 2)
    }


def test_quantiles() -> None:
    """Of one value, and of many."""
    assert quantile([1.0], 0.99) == 1.0
    assert quantile([float(n) for n in range(100)], 0.5) == 50.0
