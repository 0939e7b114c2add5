"""The demo's count: it must notice everything that can go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from celery_parrot.cli.demo import journal
from celery_parrot.cli.demo.count import Count, Window, count, due_in
from celery_parrot.cli.demo.examples import Example, examples, fails_by_design
from celery_parrot.cli.demo.journal import Line
from celery_parrot.model.fire import FireKey, FireRecord, Namespace, Origin, Status

START = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(seconds=20))
NAMESPACE = Namespace("demo")
EXAMPLES = examples(START)


def ended_as_meant(example: Example, key: FireKey) -> Status:
    return Status.ERROR if example.on_purpose and fails_by_design(key.due_at) else Status.SUCCESS


def record(key: FireKey, status: Status) -> FireRecord:
    return FireRecord(
        fire_id=NAMESPACE.fire_id(key),
        key=key,
        name=key.schedule_id,
        kind="task",
        status=status,
        origin=Origin.SCHEDULE,
    )


def perfect() -> tuple[list[FireRecord], list[Line]]:
    """History and journal of a run in which all went well."""
    records: list[FireRecord] = []
    lines: list[Line] = []
    for example in EXAMPLES:
        for key in due_in(example, WINDOW):
            status = ended_as_meant(example, key)
            made = record(key, status)
            records.append(made)
            lines.append(Line(made.fire_id, 0, journal.BEGUN))
            if example.name == "retries-once":
                lines += [Line(made.fire_id, 0, journal.RETRIED), Line(made.fire_id, 1, journal.BEGUN)]
            lines.append(Line(made.fire_id, 0, journal.DONE if status is Status.SUCCESS else journal.FAILED))
    return records, lines


def counted(records: Sequence[FireRecord], lines: Sequence[Line]) -> Count:
    return count(EXAMPLES, WINDOW, records, lines, NAMESPACE)


def index_of(records: Sequence[FireRecord], name: str) -> int:
    return next(i for i, each in enumerate(records) if each.name == name)


def test_a_perfect_run_agrees() -> None:
    """All numbers equal, and the schedule that fails on purpose is counted apart."""
    result = counted(*perfect())
    assert result.agrees, result.problems
    assert result.due == result.sent == result.succeeded > 40
    assert result.failing_due == 5
    assert result.failing_failed in (2, 3)
    assert result.line() == f"due={result.due} sent={result.due} succeeded={result.due} duplicates=0 missed=0"


def test_a_fire_that_was_never_sent_is_missed() -> None:
    records, lines = perfect()
    del records[index_of(records, "every-second")]
    result = counted(records, lines)
    assert (result.due - result.sent, result.missed, result.agrees) == (1, 1, False)
    assert "every-second at 12:00:01 was due and has no history" in result.problems


def test_a_recorded_miss_is_a_miss() -> None:
    records, lines = perfect()
    at = index_of(records, "daily")
    records[at] = replace(records[at], status=Status.MISSED, reason="too_late")
    result = counted(records, lines)
    assert (result.missed, result.agrees) == (1, False)
    assert result.problems == ("daily at 12:00:10 ended as missed (too_late), not as success",)


def test_a_fire_that_nothing_called_for_is_noticed() -> None:
    records, lines = perfect()
    records.append(record(FireKey("daily", START + timedelta(seconds=11)), Status.SUCCESS))
    result = counted(records, lines)
    assert (result.sent - result.due, result.agrees) == (1, False)
    assert "daily at 12:00:11 was sent and was not due" in result.problems


def test_a_second_execution_is_a_duplicate_wherever_it_happens() -> None:
    """Also before and after the window, where due times are not counted."""
    records, lines = perfect()
    result = counted(records, [*lines, lines[0], Line("f", 0, journal.BEGUN), Line("f", 0, journal.BEGUN)])
    assert (result.duplicates, result.agrees) == (2, False)


def test_a_retry_is_no_duplicate_and_a_repeated_try_is_one() -> None:
    begun = [Line("f", 0, journal.BEGUN), Line("f", 1, journal.BEGUN)]
    assert journal.executed_twice(begun) == []
    assert journal.executed_twice([*begun, begun[1]]) == ["f"]


def test_a_success_that_no_task_confirms_is_noticed() -> None:
    records, lines = perfect()
    silent = records[index_of(records, "once")].fire_id
    result = counted(records, [line for line in lines if line.fire_id != silent])
    assert not result.agrees
    assert result.problems == ("once at 12:00:13 is recorded as success, and no task says it ran",)


def test_a_failure_by_design_that_does_not_fail_is_noticed() -> None:
    records, lines = perfect()
    at = next(i for i, each in enumerate(records) if each.status is Status.ERROR)
    records[at] = replace(records[at], status=Status.SUCCESS)
    assert not counted(records, lines).agrees


def test_the_window_leaves_out_its_begin_and_holds_its_end() -> None:
    every_second = EXAMPLES[0]
    assert [key.due_at for key in due_in(every_second, Window(START, START + timedelta(seconds=2)))] == [
        START + timedelta(seconds=1),
        START + timedelta(seconds=2),
    ]


@pytest.mark.parametrize("seconds", [12, 20, 60])
def test_most_schedules_are_due_within_the_shortest_runs(seconds: int) -> None:
    """Whatever the time of day: the demo must be worth looking at."""
    opened = START + timedelta(seconds=4)  # beats need a while to start
    window = Window(opened, opened + timedelta(seconds=seconds))
    due = {example.name for example in EXAMPLES if due_in(example, window)}
    assert len(EXAMPLES) >= 12
    assert len(due) >= len(EXAMPLES) - (2 if seconds < 20 else 1)


def test_the_daily_one_is_due_also_around_midnight() -> None:
    """Its time is set relative to the start, in another day if need be."""
    late = datetime(2026, 12, 31, 23, 59, 52, tzinfo=UTC)
    window = Window(late, late + timedelta(seconds=20))
    due = {example.name for example in examples(late) if due_in(example, window)}
    assert {"daily", "weekly", "once"} <= due


def test_it_fails_never_twice_in_a_row() -> None:
    """Three failures in a row would disable it."""
    (failing,) = (example for example in EXAMPLES if example.on_purpose)
    fate = [fails_by_design(key.due_at) for key in due_in(failing, Window(START, START + timedelta(minutes=2)))]
    assert all(one != other for one, other in pairwise(fate))


def test_the_journal_reads_what_was_written(tmp_path: Path) -> None:
    """The attempt is cut from the task id; half a line is left for later."""
    path = tmp_path / "journal.jsonl"
    assert journal.read(path) == []
    journal.write(path, "abc:2", 1, journal.BEGUN)
    journal.write(path, "abc", 0, journal.DONE)
    with path.open("a") as file:
        file.write('["abc", 0')
    assert journal.read(path) == [Line("abc", 1, journal.BEGUN), Line("abc", 0, journal.DONE)]
