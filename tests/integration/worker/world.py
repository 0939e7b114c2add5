"""What a test of workers has: a broker, a coordinator that can be cut off, workers, and fires to send."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from celery.result import AsyncResult

from celery_parrot.clock import SystemClock
from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Status
from celery_parrot.model.plan import Plan, PlannedFire
from celery_parrot.protocols import (
    Coordinator,
    Grant,
    Hold,
    Limit,
    LimitRequest,
    Limits,
    Reaped,
    Registration,
    Timing,
)
from tests.integration.worker.app import NAMESPACE, SILENT_AFTER, WATCHED
from tests.integration.worker.served import CoordinatorServer
from tests.support.procs import Proc, Procs
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

APP = "tests.integration.worker.app"
LEASE = 1.5
_marks = count(1)


class World:
    """The servers of a test, and what it does to a worker."""

    def __init__(
        self,
        directory: Path,
        server: PrivateRedis,
        *,
        broker: str = "",
        unreachable: str = "hold",
        in_redis: bool = False,
    ) -> None:
        self.redis = server
        self.state: redis.Redis = server.client(1)
        self.broker = broker or server.url(0)
        self.server = CoordinatorServer(NAMESPACE, Timing(lease=LEASE)).__enter__()
        self.in_redis = in_redis
        self.network = TcpProxy("127.0.0.1", server.port if in_redis else self.server.port)
        self._redis = RedisCoordinator(server.url(2), NAMESPACE, Timing(lease=LEASE))
        self.queue = f"parrot-test-{next(_marks)}-{server.port}"
        self.lease = LEASE
        self.unreachable = unreachable
        self.procs = Procs(directory, self.environment())
        self.app = Celery(broker=self.broker, backend=server.url(1))
        self.app.conf.task_default_queue = self.queue

    def environment(self) -> dict[str, str]:
        return {
            "BROKER": self.broker,
            "STATE": self.redis.url(1),
            "COORDINATOR": self.network.url("redis://{host}:{port}/2") if self.in_redis else str(self.network.port),
            "LEASE": str(self.lease),
            "QUEUE": self.queue,
            "UNREACHABLE": self.unreachable,
        }

    def worker(self, pool: str = "prefork", *arguments: str, name: str = "", concurrency: int = 2) -> Proc:
        """Start a worker and wait until it takes tasks."""
        fixed = ("--pool", pool, "--without-gossip", "--without-mingle", *arguments)
        proc = self.procs.worker(APP, *fixed, name=name, concurrency=concurrency, level="debug")
        proc.wait_for_log(r"ready\.$")
        return proc

    @property
    def coordinator(self) -> Coordinator:
        """As somebody sees it who has just come: no loss of memory surprises the test itself."""
        if self.in_redis:
            self._redis.attach()
            return self._redis
        return self.server.coordinator.client()

    @property
    def limits(self) -> Limits:
        """The same coordinator, as one that keeps limits."""
        coordinator = self.coordinator
        assert isinstance(coordinator, Limits)
        return coordinator

    def fire(self, task: str = "note", *args: Any, **options: Any) -> Sent:
        """Send a fire as a beat would. Its first argument is its mark, by which the body reports.

        Of the options ``kind``, ``limits`` (it is then sent if it gets them) and ``deadline`` (seconds from its due
        time) are the fire's, the others its message's."""
        return Sent(self, task, args, options)

    def close(self) -> None:
        self.procs.close(grace=1.5)
        self.network.close()
        self.server.__exit__()
        self._redis.close()
        self.state.close()
        self.app.close()


class Sent:
    """A fire whose message is with the broker."""

    def __init__(
        self, world: World, task: str, args: tuple[Any, ...], options: dict[str, Any], *, commit: bool = True
    ) -> None:
        self.world = world
        number = next(_marks)
        self.mark = f"m{number}-{world.server.port}"
        self.task = task if "." in task else f"{APP}.{task}"
        self.key = FireKey(f"schedule-{number}", SystemClock().now())
        self.id = NAMESPACE.fire_id(self.key)
        self.kind: str = options.pop("kind", "task")
        self.limits: tuple[Limit, ...] = options.pop("limits", ())
        after: float | None = options.pop("deadline", 900.0 if self.limits else None)
        self.deadline = None if after is None else self.key.due_at + timedelta(seconds=after)
        self._args, self._options = (self.mark, *args), options
        if commit:
            self._commit()
        if not commit or self._granted():
            self.go(confirm=commit)

    def _commit(self) -> None:
        before = self.key.due_at - timedelta(seconds=1)
        coordinator = self.world.coordinator
        wait_until(lambda: not coordinator.attach().quiet, "the silence after a memory loss to be over")
        coordinator.register([Registration(schedule_id=self.key.schedule_id, when="-", initial=before)])
        plan = Plan(
            schedule_id=self.key.schedule_id,
            name=self.key.schedule_id,
            kind=self.kind,
            expected_mark=before,
            new_mark=self.key.due_at,
            fires=(PlannedFire(self.key.due_at),),
        )
        coordinator.commit([plan], "beat")

    def _granted(self) -> bool:
        if not self.limits:
            return True
        (reply,) = self.world.limits.request([LimitRequest(hold=Hold(self.key, "beat"), limits=self.limits)])
        return reply.grant is Grant.GRANTED

    def go(self, *, confirm: bool = True) -> None:
        """What the beat does with a fire that has all its limits."""
        if confirm:
            assert self.world.coordinator.confirm([Hold(self.key, "beat")], [self.deadline]) == [True]
        self.send()

    def send(self, **changes: Any) -> None:
        """Send the message, or the same once more."""
        headers = {"parrot": self.header() | changes}
        self.world.app.send_task(
            self.task, self._args, task_id=self.id, headers=headers, queue=self.world.queue, **self._options
        )

    def header(self) -> dict[str, Any]:
        return {
            "scheduler": NAMESPACE.name,
            "schedule_id": self.key.schedule_id,
            "name": self.key.schedule_id,
            "fire_id": self.id,
            "due_at": self.key.due_at.isoformat(),
            "origin": "schedule",
            "kind": self.kind,
            "attempt": 1,
            "deadline": None if self.deadline is None else self.deadline.isoformat(),
        }

    def ran(self) -> list[str]:
        """The attempts whose body began, in order."""
        return list(self.world.state.lrange(f"ran:{self.mark}", 0, -1))  # type: ignore[arg-type]

    def pass_gate(self) -> None:
        self.world.state.rpush(f"gate:{self.mark}", "go")

    def claim(self) -> Fire | None:
        (claim,) = self.world.coordinator.claims([self.key])
        return claim

    def record(self) -> FireRecord:
        (record,) = self.world.coordinator.fires(self.key.schedule_id)
        return record

    def result(self) -> AsyncResult[Any]:
        return AsyncResult(self.id, app=self.world.app)

    def until_ran(self, times: int = 1, timeout: float = 15.0) -> list[str]:
        wait_until(lambda: len(self.ran()) >= times, f"{self.mark} to run {times} times", timeout, explain=self.claim)
        return self.ran()

    def until(self, *statuses: Status, timeout: float = 15.0) -> FireRecord:
        """Wait for one of these statuses, or any outcome, and return the history entry."""

        def there() -> bool:
            claim = self.claim()
            return claim is not None and (claim.status in statuses if statuses else claim.status.terminal)

        wait_until(there, f"{self.mark} to be {statuses or 'over'}", timeout, explain=self.claim)
        return self.record()


# --- fires that hold limits ---


def gpu(world: World) -> tuple[Limit, ...]:
    """A group of this world's own, for one fire at a time."""
    return (Limit(f"group:{world.queue}"),)


def holders(world: World) -> list[FireKey]:
    """Who holds it."""
    (name,) = [limit.name for limit in gpu(world)]
    return [holder.fire.key for limit in world.limits.limits() if limit.name == name for holder in limit.holders]


def status(fire: Sent) -> Status | None:
    """The state of its claim."""
    claim = fire.claim()
    return claim.status if claim is not None else None


def hands_over(world: World, task: str, ends: Status, reason: str = "") -> None:
    """The step that records the end of a fire names the next: nobody has to look, neither beat nor worker."""
    first = world.fire(task, limits=gpu(world))
    second = world.fire("note", limits=gpu(world))
    assert first.until(ends).reason == reason
    assert (status(second), holders(world)) == (Status.PENDING, [second.key])
    second.go()
    assert second.until(Status.SUCCESS).attempt == 1
    assert holders(world) == []


def reaped(world: World, fire: Sent) -> Reaped:
    """Wait until a beat would end or repeat this fire. Others of the same server may be reaped before it."""
    found = wait_until(
        lambda: [one for one in world.coordinator.reap() if one.fire.key == fire.key],
        f"{fire.mark} to be reaped",
        20,
        explain=fire.claim,
    )
    return found[0]


def falls_silent(world: World) -> None:
    """Progress keeps a fire of a kind that is watched, renewing its lease does not. The body learns from ``lost`` that
    it is over."""
    fire = world.fire("steady", kind=WATCHED)
    fire.until_ran()
    later = world.coordinator.attach().now + timedelta(seconds=1.2 * SILENT_AFTER)
    wait_until(lambda: world.coordinator.attach().now > later, "longer than it may be silent")
    assert fire.key not in [one.fire.key for one in world.coordinator.reap()]
    claim = fire.claim()
    assert claim is not None
    assert "round" in claim.progress
    fire.pass_gate()
    world.state.blpop([f"silent:{fire.mark}"], 10)
    gone = reaped(world, fire).fire
    assert (gone.status, gone.reason) == (Status.ABANDONED, "silent")
    assert gone.finished_at is not None
    assert gone.progress_at is not None
    assert (gone.finished_at - gone.progress_at).total_seconds() >= SILENT_AFTER, "not before its time"
    stopped: Any = world.state.blpop([f"stopped:{fire.mark}"], int(2 * world.lease + 1))
    assert stopped is not None
    assert stopped[1] == "True"
    assert fire.record().status is Status.ABANDONED
    late = wait_until(lambda: fire.record().late_result, "what it returned, as a note")
    assert late == "success: stopped"
