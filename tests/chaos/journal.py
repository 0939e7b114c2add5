"""What the tasks noted, and the judgement on it: every due time exactly once."""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import redis

RAN = "chaos:ran"
RECEIVED = "chaos:received"

#: A due time of a schedule: what is to happen exactly once.
Due = tuple[str, datetime]

#: Seconds a body may start before its due time by this machine's clock: readings of one clock by two processes.
EARLY = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    """One note of a task."""

    what: str
    name: str
    scheduler: str
    task_id: str
    fire_id: str
    due_at: datetime
    origin: str
    attempt: int
    retries: int
    started: float
    monotonic: float
    pid: int
    worker: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def due(self) -> Due:
        """Which due time it belongs to."""
        return self.name, self.due_at

    @property
    def lateness(self) -> float:
        """Seconds from the due time to the first line of the body."""
        return self.started - self.due_at.timestamp()

    def __str__(self) -> str:
        return (
            f"{self.what} {self.lateness:+.3f} s after due, task {self.task_id}, attempt {self.attempt}, "
            f"origin {self.origin}, pid {self.pid} on {self.worker}"
        )


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery of a message to a worker, run or not."""

    task_id: str
    fire_id: str
    due: Due


class Journal:
    """Reads the notes as they grow."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._runs: list[Run] = []
        self._received: list[Received] = []

    def runs(self) -> Sequence[Run]:
        """Every note so far, in the order of arrival."""
        for raw in self._new(RAN, len(self._runs)):
            self._runs.append(Run(**{**raw, "due_at": _instant(raw["due_at"])}))
        return self._runs

    def received(self) -> Sequence[Received]:
        """Every delivery so far."""
        for raw in self._new(RECEIVED, len(self._received)):
            due = raw["name"], _instant(raw["due_at"])
            self._received.append(Received(raw["task_id"], raw["fire_id"], due))
        return self._received

    def of(self, name: str, what: str = "ran") -> list[Run]:
        """The notes of one schedule."""
        return [run for run in self.runs() if run.name == name and run.what == what]

    def _new(self, key: str, known: int) -> list[dict[str, Any]]:
        raw: Any = self._client.lrange(key, known, -1)
        return [json.loads(entry) for entry in raw]


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time in which every due time is judged: from ``first`` on, ``seconds`` long.

    :ivar every: seconds between two due times of each schedule.
    """

    names: tuple[str, ...]
    first: int
    seconds: int
    every: int = 1

    @property
    def end(self) -> int:
        """The first second after it."""
        return self.first + self.seconds

    def dues(self) -> set[Due]:
        """Each due time of each schedule in it."""
        moments = [m for m in range(self.first, self.end) if m % self.every == 0]
        return {(name, datetime.fromtimestamp(moment, UTC)) for name in self.names for moment in moments}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the due times of a window.

    :ivar repeated: due times of which more than one message reached a worker; run or dropped there.
    """

    window: Window
    executed: Mapping[Due, Sequence[Run]]
    lost: Sequence[Due]
    doubled: Sequence[Due]
    early: Sequence[Run]
    wrong_id: Sequence[Run]
    other_ids: Mapping[str, Collection[str]]
    repeated: Collection[Due]

    @property
    def exact(self) -> bool:
        """Every due time exactly once, none early, each under its own task id."""
        return not (self.lost or self.doubled or self.early or self.wrong_id or self.other_ids)

    @property
    def lateness(self) -> list[float]:
        """Of each first run, ascending."""
        return sorted(min(run.lateness for run in runs) for runs in self.executed.values() if runs)

    def figures(self) -> str:
        """One line for the summary."""
        late = self.lateness
        due = len(self.window.dues())
        text = f"due {due}, executed {len(late)}, doubled {len(self.doubled)}, lost {len(self.lost)}"
        text += f", repeated messages {len(self.repeated)}"
        if late:
            text += (
                f"; lateness p50 {quantile(late, 0.5):.3f} s, p99 {quantile(late, 0.99):.3f} s, max {late[-1]:.3f} s"
            )
        return text

    def assert_exact(self, context: Callable[[Sequence[Due]], str] = lambda _: "") -> None:
        """Fail with the offending due times, and what ``context`` knows of the first of them."""
        if self.exact:
            return
        lines = [self.figures()]
        offending: list[Due] = []
        for title, dues in (("lost", self.lost), ("doubled", self.doubled)):
            for due in dues[:10]:
                lines.append(f"{title}: {show(due)}" + "".join(f"\n    {run}" for run in self.executed.get(due, ())))
            offending += dues[:3]
            if dues:
                seconds = Counter(due_at.isoformat() for _, due_at in dues)
                lines.append(f"{title} by due time: {dict(sorted(seconds.items()))}")
        for title, runs in (("before its due time", self.early), ("under a task id not its own", self.wrong_id)):
            lines += [f"{title}: {show(run.due)}: {run}" for run in runs[:10]]
            offending += [run.due for run in runs[:3]]
        lines += [f"more than one task id for fire {fire}: {sorted(ids)}" for fire, ids in self.other_ids.items()]
        raise AssertionError("\n".join([*lines, context(offending)]))


def judge(
    window: Window,
    runs: Iterable[Run],
    received: Iterable[Received],
    *,
    scheduler: str,
    excused: Collection[Due] = frozenset(),
    may_repeat: Collection[Due] = frozenset(),
) -> Verdict:
    """Judge a window.

    :param excused: due times that the history records as missed: they must not have run.
    :param may_repeat: due times that may be lost or run twice (what was in flight when the coordinator forgot).
    """
    dues = window.dues()
    executed: dict[Due, list[Run]] = defaultdict(list)
    for run in runs:
        if run.what == "ran" and run.due in dues and run.scheduler == scheduler:
            executed[run.due].append(run)
    ids: dict[str, set[str]] = defaultdict(set)
    deliveries = Counter[Due]()
    for message in received:
        if message.due in dues and message.fire_id == fire_id(scheduler, message.due):
            ids[message.fire_id].add(message.task_id)
            deliveries[message.due] += 1
    lenient = set(may_repeat)
    every = [run for runs_of in executed.values() for run in runs_of]
    return Verdict(
        window=window,
        executed=executed,
        lost=sorted(due for due in dues - set(excused) - lenient if not executed.get(due)),
        doubled=sorted(
            due for due, found in executed.items() if len(found) > (0 if due in excused else 2 if due in lenient else 1)
        ),
        early=[run for run in every if run.lateness < -EARLY],
        wrong_id=[run for run in every if run.fire_id != fire_id(scheduler, run.due) or run.task_id != run.fire_id],
        other_ids={fire: found for fire, found in ids.items() if len(found) > 1},
        repeated={due for due, count in deliveries.items() if count > 1},
    )


def fire_id(scheduler: str, due: Due) -> str:
    """The id that DESIGN gives a fire, and its first message: worked out here without the product's code."""
    name, due_at = due
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"parrot:scheduler:{scheduler}:fire:{name}:{due_at.isoformat()}"))


def quantile(ascending: Sequence[float], share: float) -> float:
    """The value that ``share`` of them do not exceed."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


def show(due: Due) -> str:
    """A due time for a person."""
    return f"{due[0]} due {due[1].isoformat()}"


def within(dues: Iterable[Due], begin: float, end: float) -> set[Due]:
    """Those between two instants (seconds since 1970), both included."""
    low, high = (datetime.fromtimestamp(0, UTC) + timedelta(seconds=at) for at in (begin, end))
    return {due for due in dues if low <= due[1] <= high}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)
