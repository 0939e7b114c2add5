"""All that happened, as nobody inside can see it: at the server, at the broker, in the bodies. In true seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.plan import Plan
from celery_parrot.protocols import CommitReply


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan that was committed."""

    at: float
    by: str
    plan: Plan
    reply: CommitReply


@dataclass(frozen=True, slots=True)
class Publish:
    at: float
    by: str
    task_id: str
    delivered: bool


@dataclass(slots=True)
class Execution:
    """One beginning of a body. ``ended``: None if its process died first; ``recorded``: when its outcome was."""

    at: float
    worker: str
    token: str
    retries: int
    ended: float | None = None
    recorded: float | None = None


@dataclass(slots=True)
class FireLog:
    key: FireKey
    committed: list[tuple[float, str]] = field(default_factory=list)
    published: list[Publish] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    outcomes: list[tuple[float, Status, str]] = field(default_factory=list)  # when, what, by which token
    put_back: int = 0  # deliveries that met a live lease
    asked_again: int = 0  # deliveries whose limits were forgotten: each is followed by a message of the next attempt
    expired: int = 0  # deliveries that came after their deadline
    skipped: bool = False  # ended at its request for limits
    swallowed: int = 0  # messages acknowledged by a worker that died before Start


@dataclass(frozen=True, slots=True)
class Flush:
    """:ivar in_flight: fires without an outcome, or with a message in the broker, at that moment."""

    at: float
    in_flight: frozenset[FireKey]


@dataclass(slots=True)
class Life:
    """One incarnation of a process. ``troubles``: spans in which it was stopped, cut off, or a call of it failed."""

    name: str
    born: float
    beat: bool
    died: float | None = None
    troubles: list[tuple[float, float]] = field(default_factory=list)
    contacts: list[float] = field(default_factory=list)  # answers to sweep or commit

    def troubled(self, since: float, until: float) -> bool:
        """Whether it was dead or in trouble for any part of a span."""
        if self.born > since or (self.died is not None and self.died <= until):
            return True
        return any(begin <= until and end >= since for begin, end in self.troubles)

    def well(self, since: float, until: float) -> bool:
        return not self.troubled(since, until)


@dataclass(slots=True)
class History:
    fires: dict[FireKey, FireLog] = field(default_factory=dict)
    decisions: dict[str, list[Decision]] = field(default_factory=dict)
    first_marks: dict[str, datetime] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    flushes: list[Flush] = field(default_factory=list)
    remembered: list[tuple[float, str]] = field(default_factory=list)
    other_servers: list[float] = field(default_factory=list)
    afresh: list[float] = field(default_factory=list)  # when a mark was made because there was none
    silences: list[float] = field(default_factory=list)  # when one of everybody ended: nobody is judged for a while
    outages: list[tuple[float, float]] = field(default_factory=list)
    broker_troubles: list[tuple[float, float]] = field(default_factory=list)
    leases: dict[str, list[float]] = field(default_factory=dict)  # token -> when granted or renewed
    holders: dict[str, str] = field(default_factory=dict)  # token -> process
    violations: list[str] = field(default_factory=list)

    def fire(self, key: FireKey) -> FireLog:
        log = self.fires.get(key)
        if log is None:
            log = self.fires[key] = FireLog(key)
        return log

    def wrong(self, at: float, text: str) -> None:
        self.violations.append(f"at {at:.3f}: {text}")

    def outage_within(self, since: float, until: float) -> bool:
        return any(begin <= until and end >= since for begin, end in self.outages)

    def broker_trouble_within(self, since: float, until: float) -> bool:
        return any(begin <= until and end >= since for begin, end in self.broker_troubles)

    def flushed_within(self, since: float, until: float) -> bool:
        return any(since <= flush.at <= until for flush in self.flushes)

    def figures(self) -> Mapping[str, int]:
        logs = self.fires.values()
        return {
            "fires": sum(bool(log.committed) for log in logs),
            "messages": sum(len(log.published) for log in logs),
            "executions": sum(len(log.executions) for log in logs),
            "due times not fired": sum(
                gone.count for made in self.decisions.values() for one in made for gone in one.plan.not_fired
            ),
        }
