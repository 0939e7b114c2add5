"""The demo's screen, drawn without a demo."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from rich.console import Console

from celery_parrot.cli.demo.examples import examples
from celery_parrot.cli.demo.screen import LiveScreen, Picture, PlainScreen, Process, make_screen
from celery_parrot.cli.demo.watch import Watch
from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status
from celery_parrot.protocols import Coordinator

START = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


class History:
    """As much of a coordinator as the watch asks for."""

    def __init__(self) -> None:
        self.records: list[FireRecord] = []

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        found = [record for record in self.records if record.key.schedule_id == schedule_id]
        return sorted(found, key=lambda record: record.key, reverse=True)[:limit]


def fire(name: str, second: int, status: Status, **fields: object) -> FireRecord:
    due_at = START + timedelta(seconds=second)
    return FireRecord(
        fire_id=f"{name}-{second}", key=FireKey(name, due_at), name=name, kind="task", origin=Origin.SCHEDULE,
        status=status, beat="0123456789abcdef", **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def picture_of(*records: FireRecord) -> Picture:
    history = History()
    history.records = list(records)
    watch = Watch(cast(Coordinator, history), examples(START), names={"0123456789abcdef": "beat-1"})
    watch.look()
    processes = [
        Process("beat-1", "1024 fires", True),
        Process("beat-2", "killed, 1000 fires", False),
        Process("worker", "2024 done", True),
        Process("flower", "http://127.0.0.1:55555", True),
    ]
    return Picture("celery-parrot demo   3599 of 3600 s   Ctrl-C ends it", processes, watch)


MANY = [
    fire("retries-once", i, Status.SUCCESS, sent_at=START + timedelta(seconds=i, milliseconds=12), worker="worker@demo")
    for i in range(60)
]


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_cut_and_nothing_wraps(width: int) -> None:
    """At the usual widths every cell is whole, addresses too."""
    screen = LiveScreen(io.StringIO())
    console = Console(width=width, height=24, file=io.StringIO(), record=True)
    screen._console = console
    console.print(screen._draw(picture_of(*MANY)))
    lines = console.export_text().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    assert "✖ beat-2 killed, 1000 fires   ● worker 2024 done" in lines[2]
    assert lines[3].strip() == "● flower http://127.0.0.1:55555"
    assert lines[-2].split() == [f"{MANY[-1].due_at.astimezone():%H:%M:%S}", "retries-once", "success", "12", "ms",
                                 "beat-1", "worker"]  # fmt: skip


def test_plain_lines_show_each_fire_once_when_it_has_ended() -> None:
    """Off a terminal: a log, not a picture."""
    stream = io.StringIO()
    screen = PlainScreen(stream)
    running, done = fire("slow", 7, Status.RUNNING), fire("slow", 7, Status.SUCCESS, worker="worker@demo")
    for record in (running, done):
        screen.update(picture_of(record), [record])
    screen.note("a note")
    head, line, note = stream.getvalue().splitlines()
    assert head.split() == ["due", "schedule", "status", "late", "beat", "worker"]
    assert line.split()[1:] == ["slow", "success", "beat-1", "worker"]
    assert note == "a note"


def test_off_a_terminal_it_is_plain() -> None:
    assert isinstance(make_screen(io.StringIO()), PlainScreen)


def test_lateness_counts_from_the_jittered_instant() -> None:
    """A fire of ``jitter`` that leaves when it was meant to is not late."""
    from celery_parrot.triggers import actual_at

    (jittered,) = (example for example in examples(START) if example.jitter)
    due_at = START + timedelta(seconds=4)
    planned = actual_at(jittered.trigger(), jittered.name, due_at, jittered.jitter)
    assert planned > due_at
    record = fire("jitter", 4, Status.SENT, sent_at=planned + timedelta(milliseconds=8))
    assert picture_of(record).watch.late_by(record) == pytest.approx(0.008)


def test_a_long_run_forgets_nothing() -> None:
    """Histories are capped; what was seen once stays counted."""
    history = History()
    watch = Watch(cast(Coordinator, history), examples(START))
    history.records = [fire("slow", 7, Status.SENT)]
    assert [record.status for record in watch.look()] == [Status.SENT]
    history.records = [fire("slow", 7, Status.SUCCESS), fire("slow", 14, Status.SENT)]
    assert [record.status for record in watch.look()] == [Status.SUCCESS, Status.SENT]
    assert watch.look() == []
    history.records = []
    watch.look()
    assert len(watch.records) == 2
    assert [record.due_at.second for record in watch.on_the_way()] == [14]
    assert watch.recent(1) == [watch.records["slow-14"]]
