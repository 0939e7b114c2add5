"""The coordinator's time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The durations that the coordinator's decisions depend on, in seconds; the same for every process.

    :ivar claim_ttl: life of a claim after its last change (``parrot_fire_lock_ttl``). What is on its way to an outcome
        and looked after (outbox, line, run lease) does not age.
    :ivar ended_ttl: life of a claim after its outcome, if that is shorter. A later delivery is recognised by the
        history, where that still has the fire.
    :ivar takeover_after: age at which a claim of a living beat passes to whoever sweeps.
    :ivar heartbeat: silence after which a beat is gone.
    :ivar lease: life of a run lease between renewals.
    :ivar untouched: silence of everybody after which nobody is judged for one lease time.
    :ivar unknown_after: time after which a sent fire without a deadline that nobody started is ``unknown``.
    :ivar send_within: a pending fire that has been granted its limits may take at least that long to be sent.
    :ivar max_failures: so many counted failures in a row disable a schedule (``parrot_max_consecutive_failures``);
        0: none ever does.
    :ivar retry_cap: longest pause between two tries to send one fire; the first is 1 s, each next twice as long.
    """

    claim_ttl: float = 86400.0
    ended_ttl: float = 7200.0
    takeover_after: float = 10.0
    heartbeat: float = 3.0
    lease: float = 15.0
    untouched: float = 3.0
    unknown_after: float = 86400.0
    retry_cap: float = 5.0
    send_within: float = 60.0
    history_limit: int = 1000
    history_days: float = 30.0
    max_failures: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The coordinator at the moment of a call.

    :ivar now: its clock, UTC, at least millisecond precision.
    :ivar epoch: the identity of its memory.
    :ivar judge_from: before this instant nothing is treated as lapsed.
    :ivar quiet_until: until then, after a loss of memory, nothing is committed, granted or started.
    """

    now: datetime
    epoch: str
    judge_from: datetime
    quiet_until: datetime

    @property
    def judging(self) -> bool:
        return self.now >= self.judge_from

    @property
    def quiet(self) -> bool:
        return self.now < self.quiet_until
