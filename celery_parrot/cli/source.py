"""What the verbs read from: the schedules in the app's code and the coordinator of its settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cached_property

import click
from celery import Celery

from celery_parrot.cli.lazy import closest
from celery_parrot.clock import SystemClock
from celery_parrot.errors import ParrotError, Unreachable
from celery_parrot.model.schedule import Schedule
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import Coordinator, Mark
from celery_parrot.runtime.config import Settings, load
from celery_parrot.runtime.parrot import beat_of
from celery_parrot.runtime.wiring import Beat as WiredBeat
from celery_parrot.runtime.wiring import connect
from celery_parrot.triggers import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One schedule as the app's code has it. ``trigger`` is None if it is broken, ``broken`` then says why."""

    schedule: Schedule
    trigger: Trigger | None = None
    broken: str = ""


class Source:
    """One app, read only. Opens a connection when something of the coordinator is asked for."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self.settings: Settings = load(app)

    @cached_property
    def coordinator(self) -> Coordinator:
        """Where the beats agree.

        :raises ParrotError: if they do not: without a coordinator nothing can be read from outside a beat.
        """
        if self.settings.coordination == "none":
            raise ParrotError(
                "this app has no coordinator, so only its one beat knows what happened; "
                "set parrot_redis_url to see it from outside"
            )
        return connect(self.settings, SystemClock())

    @property
    def name(self) -> str:
        """The registered name."""
        return self.settings.name

    @property
    def where(self) -> str:
        """The coordinator, for a sentence; no password."""
        return "the coordinator" if self.settings.redis is None else f"Redis at {self.settings.redis}"

    @property
    def heartbeat(self) -> float:
        """Seconds of silence after which a beat is taken for dead."""
        return self.settings.timing.heartbeat

    @property
    def zone(self) -> tzinfo:
        """The app's time zone, in which instants are shown."""
        return self._app.timezone

    def beats(self) -> tuple[Sequence[Beat], datetime]:
        """The beats that are known, and the coordinator's now. Where there are none, the now is this machine's: to ask
        a coordinator that nobody uses for its clock would be to begin using it."""
        found = sorted(self.coordinator.beats(), key=lambda beat: (beat.host, beat.started))
        return found, self.coordinator.attach().now if found else SystemClock().now()

    # --- schedules ---

    @cached_property
    def _code(self) -> WiredBeat:
        self._app.loader.import_default_modules()  # as a beat does: `include`d modules hold schedules too
        return beat_of(self._app)

    def schedules(self) -> Sequence[Schedule]:
        """Every schedule in the app's code, by name."""
        return self._code.code.schedules

    def schedule_id(self, name: str) -> str:
        """The id of a schedule, by its name or id. Of a code schedule both are the same; one that has left the code may
        still have a history, so whether it exists is not judged here."""
        return name

    def must_exist(self, name: str) -> None:
        """:raises click.ClickException: if there is no such schedule, with the closest names."""
        known = [schedule.name for schedule in self.schedules()]
        if name not in known:
            raise click.ClickException(f"There is no schedule {name!r}. {closest(name, known)}".rstrip())

    def found(self, name: str) -> Found:
        """One schedule, by name. Raises as :meth:`must_exist`."""
        self.must_exist(name)
        schedule = next(each for each in self.schedules() if each.name == name)
        due = self._code.code.definitions([name]).get(name)
        if due is None:
            return Found(schedule=schedule, broken=self._code.code.broken.get(name, "it cannot be computed"))
        return Found(schedule=schedule, trigger=due.trigger)

    def run_states(self) -> Mapping[str, RunState]:
        """Run state of each schedule that has one. The code store learns the marks by the way, since a schedule with
        rules of its own counts from its mark."""
        states = self.coordinator.run_states([schedule.schedule_id for schedule in self.schedules()])
        self._code.code.learn(
            Mark(schedule_id=id_, last_due=state.last_due, held=state.disabled_by)
            for id_, state in states.items()
            if state.last_due is not None
        )
        return states

    def close(self) -> None:
        """Let go of the connection, if there is one."""
        coordinator = self.__dict__.get("coordinator")
        if coordinator is not None:
            coordinator.close()


def open_source(ctx: click.Context) -> Source:
    """The source for the app of ``celery -A app``."""
    # What a beat would log of schedules and settings as it starts is not an answer to what was asked here.
    logging.getLogger("celery_parrot").addHandler(logging.NullHandler())
    return Source(ctx.obj.app)


@contextmanager
def opened(ctx: click.Context) -> Iterator[Source]:
    """As :func:`open_source`, closed in the end. Out of reach becomes a sentence that says where."""
    source = open_source(ctx)
    try:
        yield source
    except Unreachable as error:
        raise click.ClickException(out_of_reach(source, error)) from None
    finally:
        source.close()


def out_of_reach(source: Source, error: Unreachable) -> str:
    """One sentence, with the address once."""
    cause = str(error).removeprefix(f"{source.settings.redis}: ").rstrip(".")
    return f"{source.where} cannot be reached: {cause}."


def coordinator_of(app: Celery) -> Coordinator:
    """The coordinator of an app that is set to have one."""
    return Source(app).coordinator
