"""The questions of ``doctor``, one function each. Each says what it finds; one that cannot be asked stops no other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from celery_parrot.cli.lazy import in_a_sentence
from celery_parrot.cli.output import seconds
from celery_parrot.cli.source import Source
from celery_parrot.client import ScheduleView
from celery_parrot.clock import SystemClock
from celery_parrot.errors import ConfigurationError, Unreachable
from celery_parrot.model.schedule import TASK_KIND
from celery_parrot.protocols import State
from celery_parrot.runtime.reach import out_of_reach

if TYPE_CHECKING:
    from celery_parrot.runtime.survey import Worker

OK: Final = "ok"
WARNING: Final = "warning"
ERROR: Final = "error"

_PAGE: Final = 500
_MOST: Final = 5000
"""Schedules that are looked at: a doctor who reads 100,000 is not asked twice."""
_NAMED: Final = 5
_CELERYS_OWN: Final = "celery."
"""Tasks that every worker has and none tells of."""


@dataclass(frozen=True, slots=True)
class Finding:
    """:ivar level: ``ok``, ``warning`` or ``error``. ``check``: which question. ``text``: a sentence."""

    level: str
    check: str
    text: str


@dataclass(slots=True)
class Seen:
    """What a look at the schedules found.

    :ivar targets: the tasks that are called. ``kinds``: each kind → how many schedules.
    :ivar calls: kind, target and own queue of whatever is sent to a queue.
    """

    count: int = 0
    complete: bool = True
    targets: set[str] = field(default_factory=set)
    calls: set[tuple[str, str, str]] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    states: dict[State, list[str]] = field(default_factory=lambda: defaultdict(list))
    active: list[ScheduleView] = field(default_factory=list)


def diagnose(source: Source) -> Iterator[Finding]:
    """Every finding, in the order of asking."""
    said: set[str] = set()
    checks: Sequence[tuple[str, Callable[[Source], Iterable[Finding]]]] = (
        ("settings", _settings), ("redis", _redis), ("keys", _keys), ("database", _database), ("beats", _beats),
        ("schedules", _schedules), ("workers", _workers),
    )  # fmt: skip
    for name, check in checks:
        try:
            yield from check(source)
        except Exception as error:
            text = out_of_reach(source.settings, error) if isinstance(error, Unreachable) else in_a_sentence(error)
            subject = text.partition(" cannot be ")[0]
            if subject not in said:
                said.add(subject)
                yield Finding(ERROR, name, text)


def unusable(error: ConfigurationError) -> Finding:
    """Of settings that stop everything."""
    return Finding(ERROR, "settings", in_a_sentence(error))


def _settings(source: Source) -> Iterable[Finding]:
    yield from (Finding(WARNING, "settings", f"{text.rstrip('.')}.") for text in source.settings.warnings)
    if source.settings.coordination == "none":
        yield Finding(WARNING, "settings", "There is no coordinator: one beat only, and no outcomes are recorded.")
    elif not source.settings.warnings:
        yield Finding(OK, "settings", f"The scheduler {source.name} coordinates through {source.where}.")


def _redis(source: Source) -> Iterable[Finding]:
    from celery_parrot.runtime.survey import redis_server

    if source.settings.redis is None:
        return
    server = redis_server(source.settings, SystemClock())
    yield Finding(OK, "redis", f"{source.where} answers, version {server.version}.")
    if server.eviction in ("noeviction", ""):
        yield Finding(OK, "eviction", "It evicts no keys.")
    else:
        full = f"at {server.most_memory} bytes" if server.most_memory else "were its memory bounded"
        yield Finding(
            ERROR if server.most_memory else WARNING, "eviction",
            f"maxmemory-policy is {server.eviction}: {full}, schedules and claims would be evicted. Set noeviction.",
        )  # fmt: skip


def _keys(source: Source) -> Iterable[Finding]:
    from celery_parrot.runtime.survey import redis_keys

    if source.settings.redis is None:
        return
    try:
        keys = redis_keys(source.settings, SystemClock())
    except Unreachable as error:
        if "NoPermission" not in str(error):
            raise
        yield Finding(WARNING, "keys", "The keys were not looked at: this user of Redis may not SCAN.")
        return
    part = "" if keys.complete else f", of the first {keys.seen} keys"
    if keys.untimed:
        many = _number(len(keys.untimed), "key")
        yield Finding(WARNING, "keys", f"{many} without a TTL{part}, which would stay for ever: {_some(keys.untimed)}.")
    else:
        yield Finding(OK, "keys", f"{_number(keys.seen, 'key')}, each with a TTL or meant to stay{part}.")


def _database(source: Source) -> Iterable[Finding]:
    if source.settings.database is None:
        return
    database = source.database
    try:
        with database.told():
            current, problems = database.current(), database.problems()
    except Exception as error:
        # One of click's is a sentence already.
        yield Finding(ERROR, "database", getattr(error, "message", None) or in_a_sentence(error))
        return
    if current is None:
        yield Finding(ERROR, "database", f"{database.where} has no tables. Run celery -A YOUR_APP parrot db upgrade.")
        return
    for problem in problems:
        yield Finding(ERROR, "database", f"{problem.rstrip('.')}. Run celery -A YOUR_APP parrot db upgrade.")
    if not problems:
        yield Finding(OK, "database", f"{database.where} is at {current}.")


def _beats(source: Source) -> Iterable[Finding]:
    if source.settings.coordination == "none":
        return
    found, now = source.coordination.beats()
    living = [beat for beat in found if beat.state == "alive"]
    if living:
        yield Finding(OK, "beats", f"{_number(len(living), 'beat')} alive.")
    else:
        yield Finding(WARNING, "beats", f"No beat of {source.name} is alive, so nothing is sent.")
    limit = source.settings.max_clock_skew
    for beat in living:
        if abs(beat.skew) > limit:
            yield Finding(
                WARNING, "clock",
                f"The clock of {beat.host} (pid {beat.pid}) is {seconds(beat.skew)} off the coordinator's.",
            )  # fmt: skip
        for store, away in sorted(beat.failing.items()):
            who = f"The beat on {beat.host} (pid {beat.pid})"
            yield Finding(ERROR, "beats", f"{who} has not reached store {store} for {seconds(away)}.")
    if found:
        ahead = (SystemClock().now() - now).total_seconds()
        if abs(ahead) > limit:
            yield Finding(WARNING, "clock", f"The clock of this machine is {seconds(ahead)} off the coordinator's.")
        elif all(abs(beat.skew) <= limit for beat in living):
            yield Finding(OK, "clock", "All clocks agree with the coordinator's.")
    rules = sorted({beat.tzdata or "unknown" for beat in living})
    if len(rules) > 1:
        yield Finding(
            WARNING, "tzdata", f"The beats compute with different time zone rules: {', '.join(rules)}. Due times may "
            "differ where a zone changed. Install one version everywhere.",
        )  # fmt: skip
    elif rules:
        yield Finding(OK, "tzdata", f"All beats compute with time zone rules {rules[0]}.")


def _schedules(source: Source) -> Iterable[Finding]:
    if source.settings.coordination == "none":
        return
    seen = source.seen = _look(source)
    part = "" if seen.complete else " of those"
    yield (
        Finding(OK, "schedules", f"{_number(seen.count, 'schedule')}.")
        if seen.complete
        else Finding(OK, "schedules", f"Only the first {seen.count} were looked at.")
    )
    for kind, count in sorted(seen.kinds.items()):
        if kind != TASK_KIND and kind not in source.settings.kinds:
            yield Finding(
                WARNING, "kinds", f"Kind {kind} ({_number(count, 'schedule')}{part}) is not in parrot_kinds here: no "
                "beat with these settings sends it.",
            )  # fmt: skip
    for state, what in (
        (State.BROKEN, "cannot be computed; see list"),
        (State.DISABLED, "disabled by failures; mend the cause, then resume"),
    ):
        if names := seen.states[state]:
            yield Finding(WARNING, state.value, f"{_number(len(names), 'schedule')} {what}{part}: {_some(names)}.")
    late = timedelta(seconds=source.settings.on_time)
    now = SystemClock().now()
    overdue = [view.name for view in seen.active if view.next_run is not None and view.next_run < now - late]
    if overdue:
        yield Finding(
            WARNING, "overdue", f"{_number(len(overdue), 'schedule')} more than {source.settings.on_time:g} s "
            f"overdue{part}: {_some(overdue)}.",
        )  # fmt: skip
    else:
        yield Finding(OK, "overdue", f"Nothing is overdue{part}.")


def _workers(source: Source) -> Iterable[Finding]:
    try:
        workers = source.workers()
    except Unreachable as error:
        yield Finding(ERROR, "workers", f"The broker cannot be asked for its workers: {str(error).rstrip('.')}.")
        return
    if not workers:
        yield Finding(WARNING, "workers", "No worker answered, so nobody knows which tasks are registered.")
        return
    yield Finding(OK, "workers", f"{_number(len(workers), 'worker')} answered: {_some(sorted(workers))}.")
    yield _tasks(source, workers)
    yield from _queues(source, workers)


def _tasks(source: Source, workers: Mapping[str, Worker]) -> Finding:
    known = frozenset[str]().union(*(worker.tasks for worker in workers.values()))
    wanted = {kind.task for kind in source.settings.kinds.values() if kind.task}
    wanted |= source.seen.targets if source.seen is not None else set()
    missing = sorted(name for name in wanted - known if not name.startswith(_CELERYS_OWN))
    if missing:
        text = f"No live worker registers {_some(missing)}: what is sent there ends as target_missing."
        return Finding(WARNING, "tasks", text)
    return Finding(OK, "tasks", "Every task that is called is registered by some worker.")


def _queues(source: Source, workers: Mapping[str, Worker]) -> Iterable[Finding]:
    said = [worker.queues for worker in workers.values() if worker.queues is not None]
    if len(said) < len(workers):  # one that kept silent may be the one that consumes it
        return
    missing = sorted(_wanted_queues(source).difference(*said))
    if missing:
        text = f"No live worker consumes the queue {_some(missing)}: what is sent there waits."
        yield Finding(WARNING, "queues", text)
    else:
        yield Finding(OK, "queues", "Every queue that is sent to is consumed by some worker.")


def _wanted_queues(source: Source) -> set[str]:
    """Where fires go: as the schedule says, else its kind, else Celery's routing."""
    kinds = source.settings.kinds
    wanted: set[str | None] = {kind.queue for kind in kinds.values()}
    for kind, target, queue in source.seen.calls if source.seen is not None else ():
        declared = kinds.get(kind)
        task = target if kind == TASK_KIND else declared.task if declared is not None else None
        if task and not task.startswith(_CELERYS_OWN):
            wanted.add(queue or (declared.queue if declared is not None else None) or source.queue_of(task))
    return {queue for queue in wanted if queue}


def _look(source: Source) -> Seen:
    seen, client = Seen(), source.schedules
    for store in client.stores:
        after, looked = "", 0
        while True:
            page = client.find(store=store, after=after, limit=_PAGE)
            looked += len(page)
            for view in page:
                _note(seen, view)
            after = page.after
            if not after:
                break
            if looked >= _MOST:
                seen.complete = False
                break
    return seen


def _note(seen: Seen, view: ScheduleView) -> None:
    seen.count += 1
    seen.states[view.state].append(view.name)
    if view.kind:
        seen.kinds[view.kind] += 1
    if view.state is State.ACTIVE:
        seen.active.append(view)
        if view.kind == TASK_KIND:
            seen.targets.add(view.target)
        if not {"exchange", "routing_key"} & view.options.keys():
            target = view.target if view.kind == TASK_KIND else ""
            seen.calls.add((view.kind, target, str(view.options.get("queue") or "")))


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
