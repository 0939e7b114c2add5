"""A beat, a worker and a person who asks, over a coordinator in memory and a clock driven by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_parrot.client import CodeDefinitions, Coordination, Rules, Schedules, Story
from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.dispatch.limits import Bounds
from celery_parrot.dispatch.ticker import TickSettings
from celery_parrot.model.fire import FireKey, Namespace, Status
from celery_parrot.model.schedule import Kind, Missed, Policy, Schedule
from celery_parrot.planning import trigger_of
from celery_parrot.protocols import Delivery, Lease, Outcome, Progress, Timing
from celery_parrot.stores.memory import CodeStore, Definition, fingerprint
from celery_parrot.testing import FakeClock, ManualBeat

BEGIN = datetime(2026, 3, 2, 2, 58, tzinfo=UTC)
"""A Monday night, shortly before most of what these tests schedule is due: every second from here is a tick."""

DAILY: Mapping[str, Any] = {"hour": 3}


def defined(
    name: str = "nightly",
    schedule_type: str = "daily",
    config: Mapping[str, Any] = DAILY,
    *,
    kind: str = "task",
    timezone: str = "UTC",
    options: Mapping[str, Any] | None = None,
    broken: str = "",
    enabled: bool = True,
    created_at: datetime | None = None,
    **policy: Any,
) -> Definition:
    """A schedule of the code."""
    if "missed" in policy:
        policy["missed"] = Missed(policy["missed"])
    schedule = Schedule(
        schedule_id=name, name=name, target="shop.report", schedule_type=schedule_type, schedule_config=config,
        kind=kind, timezone=timezone, options={"queue": "reports"} if options is None else options, enabled=enabled,
        created_at=created_at, policy=Policy(**policy),
    )  # fmt: skip
    trigger = None if broken else trigger_of(schedule)
    when = fingerprint(schedule_type, config, timezone=timezone, enabled=enabled)
    return Definition(schedule=schedule, trigger=trigger, broken=broken, when=when)


class Night:
    """:param definitions: what the beat and the person's process have in their code. ``zone``: the person's."""

    def __init__(
        self,
        *definitions: Definition,
        kinds: Mapping[str, Kind] | None = None,
        bounds: Bounds | None = None,
        zone: str = "UTC",
        begin: datetime = BEGIN,
        timing: Timing | None = None,
    ) -> None:
        self.clock = FakeClock(begin)
        self.namespace = Namespace("test")
        self.coordinator = MemoryCoordinator(self.namespace, timing or Timing(), self.clock)
        self._made = definitions or (defined(),)
        self._kinds, self._bounds = kinds or {}, bounds
        self.beat = self.new_beat("beat-one")
        code = CodeStore(self._made)
        self.client = Schedules(
            code=CodeDefinitions(lambda: code, self.coordinator, self.clock),
            stores={},
            rules=Rules(kinds=self._kinds, timezone=zone),
            clock=self.clock,
            coordination=Coordination(coordinator=self.coordinator, namespace=self.namespace, clock=self.clock),
        )

    def new_beat(self, owner: str) -> ManualBeat:
        beat = ManualBeat(
            self.coordinator.client(), [CodeStore(self._made)], clock=self.clock, namespace=self.namespace,
            owner=owner, kinds=self._kinds, bounds=self._bounds, settings=TickSettings(reap_interval=5.0),
        )  # fmt: skip
        beat.tick()
        return beat

    # --- time ---

    def until(self, text: str, *, leases: Sequence[tuple[str, str]] = ()) -> None:
        """Let the beat run until ``03:00`` or ``03:00:02.5`` of the first day, or an ISO instant in UTC."""
        instant = at(text)
        while (left := (instant - self.clock.now()).total_seconds()) > 0:
            self.beat.run(min(left, 5.0))
            for name, due in leases:
                assert self.renew(name, due)
        self.beat.tick()

    def away_until(self, text: str) -> None:
        """Let time pass while no beat runs."""
        self.clock.move_to(at(text))

    # --- a worker ---

    def key(self, due: str, name: str = "nightly") -> FireKey:
        return FireKey(name, at(due))

    def starts(self, due: str = "03:00", name: str = "nightly", *, attempt: int = 1, **changes: Any) -> None:
        delivery = Delivery(
            key=self.key(due, name), name=name, kind=changes.pop("kind", "task"), token=f"t{attempt}",
            worker="celery@w1", attempt=attempt, **changes,
        )  # fmt: skip
        (reply,) = self.coordinator.start([delivery])
        assert reply.verdict == "run", reply

    def renew(self, name: str, due: str, progress: Progress | None = None) -> bool:
        return self.coordinator.renew_leases([Lease(self.key(due, name), "t1", progress)])[0]

    def ends(
        self, due: str = "03:00", status: Status = Status.SUCCESS, name: str = "nightly", token: str = "t1", **more: Any
    ) -> None:
        (reply,) = self.coordinator.finish([Outcome(lease=Lease(self.key(due, name), token), status=status, **more)])
        assert reply.verdict in ("recorded", "late"), reply

    # --- the person ---

    def why(self, name: str = "nightly", at: datetime | str | None = None, fire: str | None = None) -> Story:
        return self.client.why(name, at, fire)

    def told(self, name: str = "nightly", at: datetime | str | None = None) -> list[str]:
        """The story's lines, without the one about the schedule and the one about the due times around."""
        story = self.why(name, at)
        return [story.sentence, *(step.text for step in story.steps if step.what != "schedule")]


def at(text: str) -> datetime:
    """``03:00`` of the first day, or an ISO instant, UTC."""
    if len(text) > 12 or "-" in text:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    hours, minutes, seconds = [*(float(part) for part in text.split(":")), 0.0][:3]
    return BEGIN.replace(hour=0, minute=0) + timedelta(hours=hours, minutes=minutes, seconds=seconds)
