"""Who beats, and whether that is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Final

from celery_parrot.clock import Clock
from celery_parrot.model.state import Beat
from celery_parrot.protocols import Coordinator

STORE_PATIENCE: Final = 30.0
"""Seconds after which a store that a beat cannot ask makes the whole unhealthy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatView(Beat):
    """A beat, and whether it lives. :ivar state: ``alive`` or ``silent``."""

    state: str = "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """:ivar coordinator: where the beats agree, without password.
    :ivar failing: for how many seconds each store has been out of reach of some living beat, by its name.
    :ivar reason: why it is not healthy, one sentence; empty if it is."""

    healthy: bool
    coordinator: str
    beats_alive: int = 0
    beats_silent: int = 0
    failing: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def beats(coordinator: Coordinator, clock: Clock) -> tuple[Sequence[BeatView], datetime]:
    """The beats that are known, by host and start, and the coordinator's now. Where there are none, the now is this
    machine's: to ask a coordinator that nobody uses for its clock would be to begin using it."""
    found = sorted(coordinator.beats(), key=lambda beat: (beat.host, beat.started))
    now = coordinator.attach().now if found else clock.now()
    patience = coordinator.timing.heartbeat
    return [_view(beat, (now - beat.seen).total_seconds() <= patience) for beat in found], now


def judge(found: Sequence[BeatView], name: str, where: str) -> Health:
    """Whether a scheduler with these beats is healthy. :param name: the registered one."""
    living = [beat for beat in found if beat.state == "alive"]
    silent = len(found) - len(living)
    failing: dict[str, float] = {}
    for beat in living:
        for store, seconds in beat.failing.items():
            failing[store] = max(seconds, failing.get(store, 0.0))
    gone = sorted(store for store, seconds in failing.items() if seconds >= STORE_PATIENCE)
    reason = ""
    if not living:
        reason = f"no beat of {name} is alive" + (f" ({silent} went silent)" if silent else "")
    elif gone:
        reason = ", ".join(f"store {store} has been out of reach for {failing[store]:.0f} s" for store in gone)
    return Health(
        healthy=not reason,
        coordinator=where,
        beats_alive=len(living),
        beats_silent=silent,
        failing=failing,
        reason=reason,
    )


def _view(beat: Beat, alive: bool) -> BeatView:
    known = {one.name: getattr(beat, one.name) for one in fields(Beat)}
    return BeatView(**known, state="alive" if alive else "silent")
