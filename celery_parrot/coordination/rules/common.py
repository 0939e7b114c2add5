"""The common key of a registered name: its clock, its epoch, and from when on anybody may be judged."""

from __future__ import annotations

from datetime import datetime, timedelta

from celery_parrot.coordination.rules.claim import BEGINNING
from celery_parrot.errors import MemoryLost
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Reading, Timing


class Common:
    """What every operation reads and touches, whatever it is about.

    :ivar now: the server's clock at this operation, UTC.
    :ivar run_id: the identity of the server, compared with ``made_on``.
    :ivar epoch: of this memory, empty if there is none; ``made_on``: the server it was made on.
    :ivar touched: when the last operation was. ``judge_from``, ``quiet_until``: see
        :class:`~celery_parrot.protocols.Reading`. ``beats_from``: as ``judge_from``, of beats and the claims they own.
    :ivar remembered: somebody has put something back in this epoch.
    :ivar mirror_of: when the freshest memory that was put back in this epoch was seen.
    """

    def __init__(self, namespace: Namespace, timing: Timing) -> None:
        self.namespace = namespace
        self.timing = timing
        self.now = BEGINNING
        self.run_id = ""
        self.epoch = ""
        self.made_on = ""
        self.touched = BEGINNING
        self.judge_from = BEGINNING
        self.beats_from = BEGINNING
        self.quiet_until = BEGINNING
        self.remembered = False
        self.mirror_of: datetime | None = None

    def seconds(self, value: float) -> timedelta:
        return timedelta(seconds=value)

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.timing.lease)

    @property
    def judging(self) -> bool:
        return self.now >= self.judge_from

    @property
    def quiet(self) -> bool:
        return self.now < self.quiet_until

    def touch(self) -> None:
        """A call came in. After a silence of everybody nobody is judged for one lease time; after half such a silence
        no beat is for half of it, in which every living one is heard again."""
        silence, untouched = self.now - self.touched, self.seconds(self.timing.untouched)
        if self.touched != BEGINNING and silence >= untouched:
            self.judge_from = max(self.judge_from, self.now + self.lease)
        elif self.touched != BEGINNING and silence >= untouched / 2:
            self.beats_from = max(self.beats_from, self.now + untouched / 2)
        self.touched = self.now

    def check(self, known: str) -> None:
        """:raises MemoryLost: if what the caller knew is not what is here; nothing has been touched then."""
        if known != self.epoch or self.made_on != self.run_id:
            raise MemoryLost(self.epoch if self.made_on == self.run_id else "")

    def new_epoch(self, epoch: str) -> None:
        self.epoch, self.made_on, self.remembered = epoch, self.run_id, False
        self.mirror_of = None

    def keep_quiet(self) -> None:
        """Grant and judge nothing for one lease time, so that everybody can say what they remember."""
        self.quiet_until = self.now + self.lease
        self.judge_from = max(self.judge_from, self.quiet_until)

    def reading(self) -> Reading:
        return Reading(now=self.now, epoch=self.epoch, judge_from=self.judge_from, quiet_until=self.quiet_until)
