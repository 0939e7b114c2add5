"""A client over a database file, the coordinator in memory, and schedules in code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import pytest

from celery_parrot.client import CodeDefinitions, Coordination, Rules, Schedules
from celery_parrot.clock import SystemClock
from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.model.fire import Namespace
from celery_parrot.model.schedule import Kind, Policy, Schedule
from celery_parrot.protocols import Timing
from celery_parrot.stores.memory import CodeStore, Definition, fingerprint
from celery_parrot.stores.sql import SqlStore, make_engine, upgrade
from celery_parrot.testing import FakeClock
from celery_parrot.triggers import build


def in_code(name: str, *, broken: str = "", max_fires: int | None = None, enabled: bool = True) -> Definition:
    config = {"seconds": 60}
    schedule = Schedule(
        schedule_id=name, name=name, target="t.code", schedule_type="interval", schedule_config=config,
        policy=Policy(max_fires=max_fires), enabled=enabled,
    )  # fmt: skip
    trigger = None if broken else build("interval", config)
    return Definition(
        schedule=schedule, trigger=trigger, broken=broken, when=fingerprint("interval", config, timezone="UTC")
    )


@dataclass
class World:
    clock: FakeClock
    coordinator: MemoryCoordinator
    code: CodeStore
    db: SqlStore
    client: Schedules
    warned: list[str]

    def beat(self) -> None:
        """What a beat does first: have its marks told."""
        self.coordinator.attach()
        self.code.learn(self.coordinator.register(self.code.registrations()))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "empty.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def world(tmp_path: Path, template: Path) -> Iterator[World]:
    path = tmp_path / "schedules.db"
    path.write_bytes(template.read_bytes())
    # The file keeps the machine's time, so the clock driven by hand begins there.
    clock = FakeClock(SystemClock().now().astimezone(UTC))
    coordinator = MemoryCoordinator(Namespace("test"), Timing(), clock)
    code = CodeStore([in_code("nightly"), in_code("off", enabled=False), in_code("wrong", broken="no such task")])
    engine = make_engine(f"sqlite:///{path}")
    db = SqlStore(engine)
    warned: list[str] = []
    client = Schedules(
        code=CodeDefinitions(lambda: code, coordinator, clock),
        stores={"db": db},
        rules=Rules(
            kinds={"agent": Kind(name="agent", task="t.agent", misfire_grace=20.0)},
            timezone="Europe/Madrid",
            tasks=lambda: {"t.known"},
        ),
        clock=clock,
        why_none="nowhere",
        warn=warned.append,
    )
    yield World(clock, coordinator, code, db, client, warned)
    engine.dispose()


@pytest.fixture
def agreed() -> Callable[[World], None]:
    """Lets a client ask the coordinator itself."""

    def agree(world: World) -> None:
        coordination = Coordination(
            coordinator=world.coordinator, namespace=world.coordinator.namespace, clock=world.clock
        )
        world.client._agreed = coordination

    return agree
