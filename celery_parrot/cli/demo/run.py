"""The play: everything up, a beat killed half-way, everything down, and the count."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime

from celery_parrot.cli.demo.count import Count, Window, count, due_in
from celery_parrot.cli.demo.errors import DemoError
from celery_parrot.cli.demo.interrupts import InterruptibleClock
from celery_parrot.cli.demo.screen import Picture, Process, Screen
from celery_parrot.cli.demo.stage import BEATS, FLOWER, WORKER, Options, Stage
from celery_parrot.model.fire import FireRecord, Status

Lateness = tuple[float, float] | None
"""Median and 99th percentile in seconds."""

_FRAME = 0.2
_KILL_AFTER = 15.0
_SENT_WITHIN = 5.0
_DONE_WITHIN = 12.0


def run(options: Options, clock: InterruptibleClock, screen: Screen) -> tuple[Count, Lateness]:
    """The whole demo: the count, and how late fires were sent. Nothing is left when this returns or raises.

    :raises DemoError: if it cannot begin, or a process that should live does not.
    :raises Interrupted: by a signal while it starts, or a second one later.
    """
    clock.patience = 0
    screen.note("Starting two beats, a worker and Flower ...")
    stage = Stage(options, clock, screen.note)
    try:
        stage.set_up()
        clock.patience = 1
        return Play(stage, clock, screen, options.seconds).perform(), stage.watch.lateness()
    finally:
        clock.patience = None  # from here on nothing may interrupt
        stage.close()


class Play:
    """One performance on a stage that is set.

    :param seconds: how long it runs; None: until a signal.
    """

    def __init__(self, stage: Stage, clock: InterruptibleClock, screen: Screen, seconds: float | None) -> None:
        self._stage, self._clock, self._screen = stage, clock, screen
        self._watch = stage.watch
        self._seconds = math.inf if seconds is None else seconds
        self._began = clock.monotonic()
        self._victim = ""
        self._gone: set[str] = set()
        self._opened: datetime = self._watch.now()

    def perform(self) -> Count:
        """Watch, kill one half-way, finish in order, count."""
        until = "until Ctrl-C" if math.isinf(self._seconds) else f"for {self._seconds:g} s"
        self._screen.note(f"{len(self._stage.examples)} schedules of different types. Running {until}.")
        while self._passed < self._seconds and not self._clock.signals:
            self._frame()
            if not self._victim and self._passed >= min(self._seconds / 2, _KILL_AFTER):
                self._kill_one()
            self._clock.sleep(_FRAME)
        window = Window(self._opened, self._watch.now())
        self._finish(window)
        return self._count(window)

    @property
    def _passed(self) -> float:
        return self._clock.monotonic() - self._began

    # --- while it runs ---

    def _frame(self) -> None:
        changed = self._watch.look()
        self._look_after_processes()
        self._screen.update(Picture(self._heading(), self._processes(), self._watch), changed)

    def _heading(self) -> str:
        of = "" if math.isinf(self._seconds) else f" of {self._seconds:g}"
        return f"celery-parrot demo   {min(self._passed, self._seconds):.0f}{of} s   Ctrl-C ends it"

    def _processes(self) -> list[Process]:
        sent = self._watch.sent_by()
        found: list[Process] = []
        for beat in BEATS:
            fires = f"{sent[beat]} fires"
            found.append(Process(beat, f"killed, {fires}" if beat == self._victim else fires, beat != self._victim))
        done = sum(record.status is Status.SUCCESS for record in self._watch.records.values())
        found.append(Process(WORKER, f"{done} done", True))
        if self._stage.flower_url:
            found.append(Process(FLOWER, self._stage.flower_url, True))
        return found

    def _kill_one(self) -> None:
        """SIGKILL to the beat that did the most: no goodbye, no clean-up."""
        sent = self._watch.sent_by()
        self._victim = max(BEATS, key=lambda beat: sent[beat])
        other = next(beat for beat in BEATS if beat != self._victim)
        pid = self._stage.children[self._victim].pid
        self._stage.children[self._victim].kill()
        self._gone.add(self._victim)
        at = f"{self._clock.now().astimezone():%H:%M:%S}"
        self._screen.note(f">>> {at}  Killed {self._victim} (kill -9 {pid}). {other} carries on.")

    def _look_after_processes(self) -> None:
        for name in (*BEATS, WORKER, FLOWER):
            if name in self._gone or name not in self._stage.children or self._stage.children[name].alive:
                continue
            child = self._stage.children[name]
            said = f"{name} ended unexpectedly (exit code {child.exit_code}). It said:\n{child.tail()}"
            if name != FLOWER:
                raise DemoError(said)
            self._gone.add(name)
            self._stage.flower_url = ""
            self._screen.note(f"{said}\nThe demo goes on without it.")

    # --- in the end ---

    def _finish(self, window: Window) -> None:
        """Let what is due be sent, stop the beats, let what is on its way finish, stop the rest."""
        self._screen.note("Stopping the beats ...")
        expected = {self._stage.namespace.fire_id(key) for each in self._stage.examples for key in due_in(each, window)}
        self._wait(lambda: expected <= self._past_outbox(), _SENT_WITHIN)
        self._stage.children.end(BEATS, within=5)
        self._gone |= set(BEATS)
        self._screen.note("Letting what is on its way finish ...")
        if not self._wait(lambda: not self._watch.on_the_way(), _DONE_WITHIN):
            self._screen.note(f"{len(self._watch.on_the_way())} fires are not finished; no longer waiting for them.")
        self._watch.look_at_all()
        self._stage.children.end([WORKER, FLOWER], within=5)
        self._gone |= {WORKER, FLOWER}

    def _past_outbox(self) -> set[str]:
        on_the_way_out = (Status.PENDING, Status.WAITING)
        return {fire_id for fire_id, record in self._watch.records.items() if record.status not in on_the_way_out}

    def _wait(self, done: Callable[[], bool], within: float) -> bool:
        deadline = self._clock.monotonic() + within
        while True:
            self._frame()
            if done():
                return True
            if self._clock.monotonic() > deadline:
                return False
            self._clock.sleep(_FRAME)

    def _count(self, window: Window) -> Count:
        records: list[FireRecord] = list(self._watch.records.values())
        return count(self._stage.examples, window, records, self._stage.journal(), self._stage.namespace)
