"""An app with the guard on, over a coordinator in memory: Celery's own tracer, no broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from celery import Celery, Task
from celery.app.trace import TraceInfo, build_tracer

from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import FireKey, FireRecord, Namespace
from celery_parrot.protocols import Coordinator, Timing
from celery_parrot.runtime.worker import install
from celery_parrot.testing import FakeClock

NAME = Namespace("unit")
DUE = datetime(2026, 1, 1, tzinfo=UTC)
KEY = FireKey("s", DUE)


class Place:
    """An app with the guard on, and what its tasks published instead of publishing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.clock = FakeClock(DUE)
        self.server = MemoryCoordinator(NAME, Timing(), self.clock)
        self.server.attach()
        self.app = Celery("unit", broker="memory://", backend="cache+memory://", set_as_current=False)
        self.published: list[dict[str, Any]] = []
        self.publish_fails = 0
        self.down = False
        self.worker_clock = _Steady(self.clock)
        self.installed = install(self.app, self.connect, NAME, clock=self.worker_clock, **options)
        monkeypatch.setattr(Task, "apply_async", self._publish)

    def connect(self) -> Coordinator:
        if self.down:
            raise Unreachable("down")
        return cast(Coordinator, self.server.client())

    def _publish(self, args: Any = None, kwargs: Any = None, **options: Any) -> None:
        if self.publish_fails:
            self.publish_fails -= 1
            raise OSError("no broker")
        self.published.append(options)

    def run(self, task: Any, *args: Any, request: dict[str, Any] | None = None, **header: Any) -> Any:
        """Trace one delivery of the fire; returns Celery's (retval, info)."""
        task = self.app.tasks[task.name]
        content = {"scheduler": "unit", "schedule_id": "s", "due_at": DUE.isoformat(), "token": "t1", **header}
        message = {
            "id": "id",
            "task": task.name,
            "hostname": "w",
            "delivery_info": {"routing_key": "q", "exchange": ""},
        }
        message |= {"parrot": content, "retries": 0} | (request or {})
        return build_tracer(task.name, task, app=self.app)("id", list(args), {}, message)

    def pass_time(self, seconds: float) -> None:
        """Let time pass for everybody, with somebody who touches the coordinator, so that it judges."""
        for _ in range(int(seconds)):
            self.clock.advance(1)
            self.server.client().attach()

    def record(self) -> FireRecord:
        (record,) = self.server.client().fires("s")
        return record


class _Steady(FakeClock):
    """Sleeping moves the clock, waiting does not: the keeper thread must not run time away."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(source=clock)

    def wait(self, event: Any, seconds: float) -> bool:
        return bool(event.wait(0.01))


Make = Callable[..., Place]


def state_of(traced: Any) -> str | None:
    info: TraceInfo | None = traced.info
    return None if info is None else str(info.state)
