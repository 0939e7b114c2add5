"""Who a beat is, and by what it ticks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this beat process is. ``owner`` is an id per process start."""

    owner: str
    host: str
    pid: int
    version: str
    tzdata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickSettings:
    """:ivar on_time: lateness in seconds up to which nothing counts as missed.
    :ivar batch: schedules planned in one round, per store.
    :ivar sync_interval: longest sleep in seconds, and the pause between two looks at the outbox.
    :ivar reap_interval: seconds between two reaps. ``unrouted_every``: between two reports of unrouted kinds.
    :ivar max_clock_skew: seconds of our own wall clock's error from which on warnings become loud.
    :ivar delivery_queue: where the delivery task goes; None: as it is routed.
    """

    on_time: float = 10.0
    batch: int = 500
    sync_interval: float = 1.0
    reap_interval: float = 30.0
    unrouted_every: float = 60.0
    max_clock_skew: float = 5.0
    delivery_queue: str | None = None
