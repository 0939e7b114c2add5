"""What is known about one due time: read in a few round trips, frozen, and then put into words elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from celery_parrot.client.health import BeatView
from celery_parrot.client.view import ScheduleView
from celery_parrot.client.why_when import Moment
from celery_parrot.model.fire import Fire, FireRecord, Status
from celery_parrot.model.schedule import Kind, Schedule
from celery_parrot.planning import sending_at
from celery_parrot.protocols import LimitState, Timing
from celery_parrot.protocols.holding import Held
from celery_parrot.triggers import Bounded, Trigger
from celery_parrot.triggers.clocked import ClockTrigger

MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A fire that another one waited for, or was skipped because of.

    :ivar name: its schedule; empty where only its id is known.
    """

    fire_id: str
    name: str = ""
    due_at: datetime | None = None
    status: Status | None = None
    worker: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """:ivar oldest: the oldest due time that is kept, None if there is none; ``newest``: the newest.
    :ivar full: older ones were dropped.
    """

    oldest: datetime | None = None
    newest: datetime | None = None
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """:ivar definition: as it is now; None if it cannot be read. ``trigger``: None if it cannot be computed.
    :ivar now: the coordinator's clock.
    :ivar due_at: what the story is about, UTC. ``is_due``: whether the schedule names it, as it is defined now.
    :ivar moment: what was asked for; None: nothing was. ``more``: how many more due times that covers.
    :ivar latest: nothing newer is decided or on its way. ``deleted``: only its history is left.
    :ivar record: what the history has of it. ``claim``: what the coordinator knows of the fire.
    :ivar holder: whom it waited for, or was skipped for. ``into``: of a coalesced one, the fire that ran instead.
    :ivar before: what the history has of the due time before.
    :ivar limits: who holds and waits, where the fire stands in line.
    :ivar history: how far back it goes, where the due time is not in it.
    :ivar kinds: what is routed, by the settings of this process.
    :ivar held: of a code schedule that is paused or disabled, since when.
    """

    view: ScheduleView
    definition: Schedule | None
    trigger: Trigger | None
    now: datetime
    due_at: datetime
    is_due: bool
    viewer: tzinfo
    kinds: Mapping[str, Kind]
    timing: Timing
    moment: Moment | None = None
    more: int = 0
    latest: bool = False
    deleted: bool = False
    record: FireRecord | None = None
    claim: Fire | None = None
    holder: Holder | None = None
    into: FireRecord | None = None
    before: FireRecord | None = None
    limits: Sequence[LimitState] = ()
    history: History = field(default_factory=History)
    beats: Sequence[BeatView] = ()
    held: Held | None = None

    @property
    def mark(self) -> datetime | None:
        return self.view.run_state.last_due

    @property
    def kind(self) -> Kind | None:
        """None where it is not routed here."""
        return self.kinds.get(self.view.kind)

    @property
    def living(self) -> Sequence[BeatView]:
        return [beat for beat in self.beats if beat.state == "alive"]

    @property
    def previous(self) -> datetime | None:
        """The due time before."""
        return None if self.trigger is None else self.trigger.latest_at(self.due_at - MICROSECOND)

    @property
    def next(self) -> datetime | None:
        """The due time after; None where there is none, or its fires are used up."""
        if self.trigger is None or (self.used_up and (self.latest or self.record is None)):
            return None
        return self.trigger.next_after(self.due_at)

    @property
    def used_up(self) -> bool:
        """Whether it has had as many fires as it may have (``max_fires``)."""
        most = self.view.max_fires
        return most is not None and self.view.run_state.auto_count >= most

    def sending(self, due_at: datetime) -> datetime:
        """When a due time is sent: with its jitter."""
        if self.definition is None or self.trigger is None:
            return due_at
        return sending_at(self.definition, self.trigger, due_at)


def zone_of(view: ScheduleView, trigger: Trigger | None) -> tzinfo:
    """The zone in which a schedule's readings are, UTC where it has none."""
    inner = trigger.trigger if isinstance(trigger, Bounded) else trigger
    if isinstance(inner, ClockTrigger):
        return inner.clock.zone.info
    name = view.schedule_config.get("tz") or view.timezone
    return zone_named(name if isinstance(name, str) else "UTC")


def zone_named(name: str) -> tzinfo:
    """UTC for one that does not exist."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return UTC
