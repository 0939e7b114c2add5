"""What a beat can say about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

STALLED = "stalled"
"""A tick takes so long that the others take this beat for dead: its loop hangs in a call, or in code of the user's."""

LOCK_UNAVAILABLE = "lock_unavailable"
"""The coordinator cannot be asked: due times stay due, nothing is sent uncoordinated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A beat's state of health at one moment.

    :ivar status: ``ok``, ``starting``, ``lock_unavailable``, ``quiet`` (after a loss of the coordinator's memory),
        ``unsteady`` (the coordinator's clock stepped), ``broker_unavailable`` or ``stalled``.
    :ivar since: monotonic stamp at which ``status`` began.
    :ivar last_tick: monotonic stamp of the last tick that came to its end.
    :ivar now: the coordinator's clock, None before the first reading. ``skew``: seconds our wall clock is ahead.
    :ivar beats: living beats of this registered name, this one included.
    :ivar failing: for how many seconds each store that cannot be asked has been out of reach, by its name.
    :ivar pending: entries in the outbox as last swept.
    """

    status: str
    since: float
    last_tick: float
    now: datetime | None
    skew: float
    beats: int
    pending: int
    reason: str = ""
    failing: Mapping[str, float] = field(default_factory=dict)
