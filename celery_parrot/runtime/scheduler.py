"""The scheduler class that ``celery beat`` loads: ``beat_scheduler = "parrot"``."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Mapping
from typing import Any

from celery.beat import ScheduleEntry, Scheduler

from celery_parrot.errors import ConfigurationError
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.runtime.config import describe, load
from celery_parrot.runtime.entries import Source
from celery_parrot.runtime.entry_fields import CELERY_KEYS
from celery_parrot.runtime.parrot import beat_of
from celery_parrot.runtime.stopping import Shield
from celery_parrot.runtime.watchdog import Watchdog
from celery_parrot.runtime.wiring import Beat

logger = logging.getLogger("celery_parrot")

SLICE = 0.25
"""Longest wait, in seconds, before Celery's service is let look whether it shall stop."""

CLOSE_WITHIN = 0.7
"""Seconds to say goodbye in."""

_TOO_SHORT = 0.0005
_PAUSE_AFTER_A_FAULT = 1.0
_ADDED = "added to the scheduler"


class ParrotScheduler(Scheduler):
    """One of any number of active beats.

    Takes what Celery's own schedulers take. ``max_interval`` is an upper bound of a sleep; sleeps are short anyway
    (``parrot_sync_interval``). Celery's ``tick`` is not inherited: it compares and reheaps the whole schedule, sends
    one task a call and drops what it failed to send.

    A setting that cannot work ends the process at start-up with one CRITICAL line and exit code 1.
    """

    max_interval = 1
    _beat: Beat | None = None
    _watchdog: Watchdog | None = None
    _ticking = False
    _ready = False
    _next_at = 0.0

    # --- set up ---

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._shield = Shield()
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Collect the schedules and put the beat together. Opens no connection."""
        try:
            self._beat = beat_of(self.app)
        except ConfigurationError as exc:
            logger.critical("%s", exc)
            # Not the error itself: Celery would log it with two tracebacks and click would add a third.
            raise SystemExit(1) from exc
        self._next_at = self._beat.clock.monotonic()
        for source in self._beat.sources:
            self._show(source.name, source.entry)

    def add(self, **kwargs: Any) -> ScheduleEntry:
        """Add a schedule to the running beat, as Celery's: ``add(name=…, task=…, schedule=…)``."""
        name = str(kwargs.pop("name"))
        self.update_from_dict({name: kwargs})
        return self.schedule.get(name) or self.Entry(name=name, task=kwargs.get("task"), app=self.app)

    def update_from_dict(self, dict_: Mapping[str, Any]) -> None:
        """Add or replace schedules, by name."""
        for name, entry in dict_.items():
            if self._beat is not None:
                self._beat.put(Source(str(name), entry, _ADDED))
            self._show(str(name), entry)

    def _show(self, name: str, entry: object) -> None:
        """Note it for :attr:`schedule`, which is for looking at; one that cannot be shown is left out."""
        fields = entry if isinstance(entry, Mapping) else getattr(entry, "__dict__", {})
        if not fields.get("task"):
            return
        try:
            own = {key: value for key, value in fields.items() if key in CELERY_KEYS}
            self.schedule[name] = self.Entry(**{**own, "name": name, "app": self.app})
        except Exception as exc:
            logger.debug("%s cannot be shown: %s", name, type(exc).__name__)

    # --- run ---

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Do what is due, then wait for more, for a part of a second. Returns 0: it has waited already."""
        beat = self._beat
        if beat is None:
            return float(self.max_interval)
        if self._watchdog is None:  # not before: `--detach` and `-B` make this object in another process or thread
            self._watchdog = Watchdog(beat.ticker.health)
            self._watchdog.start()
        self._ticking = True
        try:
            if self._next_at - beat.clock.monotonic() < _TOO_SHORT:
                with self._shield():
                    self._turn(beat)
            left = self._next_at - beat.clock.monotonic()
            if left >= _TOO_SHORT and beat.wake.wait(min(left, SLICE)):
                beat.ticker.woken()
                self._next_at = beat.clock.monotonic()
        finally:
            self._ticking = False
        return 0.0

    def _turn(self, beat: Beat) -> None:
        pause = min(self._tick(beat), float(self.max_interval))
        self._next_at = beat.clock.monotonic() + pause
        if not self._ready:
            self._announce(beat)

    def _tick(self, beat: Beat) -> float:
        try:
            return beat.tick()
        except Exception:  # a bug of ours or of a store; a beat that ends helps nobody
            logger.exception("a tick failed; the next one is tried in %g s", _PAUSE_AFTER_A_FAULT)
            return _PAUSE_AFTER_A_FAULT

    def _announce(self, beat: Beat) -> None:
        """The one line that says this beat is at work: its coordinator has answered."""
        health = beat.ticker.health()
        if health.now is None:
            return
        self._ready = True
        if threading.current_thread() is threading.main_thread():  # in another one the process is somebody else's
            gc.freeze()  # what is there now stays: no collection in the middle of a rush need look at it again
        broken = len(beat.code.broken)
        facts = describe(beat.settings)
        fields = {
            **{key.replace(" ", "_"): value for key, value in facts.items()},
            "schedules": len(beat.code.schedules) - broken,
            "broken": broken,
            "kinds": sorted({"task", *beat.settings.kinds}),
        }
        text = (
            f"beat ready: {beat.settings.name}, coordination {facts['coordination']}, "
            f"{fields['schedules']} schedules ({broken} broken), kinds {' '.join(fields['kinds'])}"
        )
        beat.events.emit(Event(events.BEAT_READY, logging.INFO, text, fields))

    # --- end ---

    def close(self) -> None:
        """Leave, so that the other beats take over at once, and let go of every connection. May be repeated.

        Celery calls this from its signal handler too, in the middle of :meth:`tick`: then the connections are in
        use, the tick is about to be abandoned by SystemExit, and Celery calls again.
        """
        if self._ticking:
            return
        self._shield.remove()
        if self._watchdog is not None:
            self._watchdog.stop()
        beat, self._beat = self._beat, None
        if beat is not None:
            beat.close(CLOSE_WITHIN)
        super().close()

    # --- show ---

    @property
    def info(self) -> str:
        """The scheduler's lines of the start-up banner."""
        try:
            facts = describe(load(self.app))
        except ConfigurationError as exc:
            return f"    . parrot -> cannot start: {exc}"
        return "\n".join(f"    . {key} -> {value}" for key, value in facts.items())
