"""The coordinator and the stores of one process, from its settings. Nothing is connected before it is first asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from celery import Celery

from celery_parrot.clock import Clock
from celery_parrot.errors import ConfigurationError
from celery_parrot.protocols import Coordinator, EventSink, RowStore, ScheduleStore, WakeChannel
from celery_parrot.runtime.aside import Rows
from celery_parrot.runtime.celery_schedules import zone_name
from celery_parrot.runtime.conf_database import DatabaseAddress
from celery_parrot.runtime.conf_redis import RedisAddress
from celery_parrot.runtime.config import Settings
from celery_parrot.runtime.faults import crashing
from celery_parrot.runtime.precedence import Outranked, TakenIn, none_taken
from celery_parrot.runtime.reports import clashed
from celery_parrot.runtime.wakes import EitherWake
from celery_parrot.stores.memory import CodeStore

if TYPE_CHECKING:
    from celery_parrot.coordination.redis import Link

DB, REDIS = "db", "redis"
SHARED = (DB, REDIS)
"""Names of the stores whose schedules all beats share, by precedence."""


def attached(stores: Sequence[ScheduleStore]) -> tuple[str, ...]:
    """Names of those stores that need a coordinator that all beats share."""
    return tuple(store.name for store in stores if store.name in SHARED or _decides(store))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """:ivar db: :ivar redis: the two editable stores, where there are any; each is all that its room offers.
    :ivar others: further stores that were handed in.
    """

    settings: Settings
    clock: Clock
    coordinator: Coordinator
    db: Any = None
    redis: Any = None
    others: tuple[ScheduleStore, ...] = ()

    def for_beat(self, code: CodeStore, events: EventSink) -> tuple[list[ScheduleStore], list[RowStore]]:
        """The stores of a beat, and those of them whose rows decide."""
        stores: list[ScheduleStore] = [code]
        rows: list[RowStore] = []
        tell = clashed(events)
        taken = none_taken
        if self.db is not None:
            asked = rows_of(self.db, self.clock)
            stores.append(Outranked(asked, code, none_taken, tell))
            rows.append(crashing(asked))
            taken = TakenIn(asked.get, self.clock)
        if self.redis is not None:
            stores.append(Outranked(self.redis, code, taken, tell))
        stores.extend(self.others)
        rows.extend(store for store in self.others if _decides(store))  # type: ignore[misc]
        return stores, rows

    def wake(self) -> WakeChannel:
        """What wakes a beat of this process: Redis, and PostgreSQL where there is one."""
        channels: list[WakeChannel] = [_wake(self.settings, self.clock, self.coordinator)]
        if self.db is not None and _tells(self.db):
            channels.append(self.db.wake_channel())
        return channels[0] if len(channels) == 1 else EitherWake(channels, self.clock)

    def close(self) -> None:
        """Let go of every connection."""
        for backend in (self.db, self.redis, self.coordinator):
            if backend is not None and hasattr(backend, "close"):
                backend.close()


def backends(app: Celery, settings: Settings, clock: Clock, stores: Sequence[ScheduleStore] = ()) -> Backends:
    """The backends of ``settings``; a store that is handed in under the name ``db`` or ``redis`` takes its place.

    :raises ConfigurationError: for two stores of one name, or a database whose driver is not installed.
    """
    given: dict[str, Any] = {}
    for store in stores:
        if store.name in given or store.name == CodeStore.name:
            raise ConfigurationError("stores", store.name, "is the name of two stores", "Hand in one of each name.")
        given[store.name] = store
    coordinator = connect(settings, clock)
    db, redis = given.pop(DB, None), given.pop(REDIS, None)
    if db is None and settings.database is not None:
        db = sql_store(app, settings, clock)
    if redis is None and settings.redis is not None:
        redis = _redis_store(app, settings, coordinator)
    return Backends(
        settings=settings, clock=clock, coordinator=coordinator, db=db, redis=redis, others=tuple(given.values())
    )


def connect(settings: Settings, clock: Clock) -> Coordinator:
    """A coordinator of this process's own. Opens no connection yet."""
    if settings.coordination == DB:
        return sql_coordinator(settings, clock)
    if settings.redis is None:
        from celery_parrot.coordination.memory import MemoryCoordinator, MemoryWake

        return MemoryCoordinator(settings.namespace, settings.timing, clock, wake=MemoryWake(clock))
    from celery_parrot.coordination.redis import RedisCoordinator

    return RedisCoordinator(**_redis(settings.redis), namespace=settings.namespace, timing=settings.timing, clock=clock)


def redis_link(settings: Settings, clock: Clock) -> Link:
    """A connection to the Redis of ``settings``, for a look at the server itself. Opens none yet."""
    from celery_parrot.coordination.redis import Link

    assert settings.redis is not None
    return Link(**_redis(settings.redis), clock=clock)


def sql_store(app: Celery, settings: Settings, clock: Clock) -> Any:
    """The db store of ``settings.database``.

    :raises ConfigurationError: if SQLAlchemy or the driver is not installed, or the URL cannot be read.
    """
    database = settings.database
    assert database is not None
    try:
        from celery_parrot.stores.sql import SqlStore
    except ImportError as exc:
        raise _not_installed(database, exc) from None
    return SqlStore(
        database.url,
        schema=database.schema,
        options=database.options,
        clock=clock,
        history_days=settings.history_days,
        history_limit=settings.history_limit,
        timezone=zone_name(app.timezone),
        namespace=settings.namespace,
        max_failures=settings.max_consecutive_failures,
        allowed_tasks=settings.allowed_tasks,
    )


def sql_coordinator(settings: Settings, clock: Clock) -> Coordinator:
    """The coordinator in ``settings.database``, with connections of its own: they are bounded more tightly.

    :raises ConfigurationError: as :func:`sql_store`.
    """
    database = settings.database
    assert database is not None
    try:
        from celery_parrot.coordination.sql import SqlCoordinator
    except ImportError as exc:
        raise _not_installed(database, exc) from None
    return SqlCoordinator(
        database.url,
        settings.namespace,
        settings.timing,
        schema=database.schema,
        options=database.options,
        clock=clock,
    )


def _not_installed(database: DatabaseAddress, exc: ImportError) -> ConfigurationError:
    extra = {"mysql": "mysql", "mariadb": "mysql", "sqlite": "db"}.get(database.backend, "postgresql")
    return ConfigurationError(
        "parrot_database_url", str(database), f"needs a package that is not installed ({exc})",
        f"Install celery-parrot[{extra}].",
    )  # fmt: skip


def rows_of(store: Any, clock: Clock) -> Rows:
    """The db store as a beat asks it. A file is asked directly, a server aside."""
    problems = partial(_problems, store)
    if store.engine.dialect.name == "sqlite":
        return Rows(store, problems, clock, aside=lambda work: work())
    return Rows(store, problems, clock)


def _problems(store: Any) -> Sequence[str]:
    from celery_parrot.stores.sql import check

    store.now()  # a database that is away is told in our own terms
    found: Sequence[str] = check(store.engine, store.schema)
    return [problem.partition("; run ")[0] for problem in found]


def _redis_store(app: Celery, settings: Settings, coordinator: Coordinator) -> Any:
    from celery_parrot.stores.redis import RedisStore

    # It works by the coordinator's own connection: its commits are the coordinator's.
    return RedisStore(cast(Any, coordinator), timezone=zone_name(app.timezone), allowed_tasks=settings.allowed_tasks)


def _wake(settings: Settings, clock: Clock, coordinator: Coordinator) -> WakeChannel:
    if settings.redis is None:
        from celery_parrot.coordination.memory import MemoryCoordinator, MemoryWake

        known = coordinator.wake if isinstance(coordinator, MemoryCoordinator) else None
        return known.listener() if known is not None else MemoryWake(clock)
    from celery_parrot.coordination.redis import RedisWake

    return RedisWake(**_redis(settings.redis), namespace=settings.namespace, clock=clock)


def _redis(address: RedisAddress) -> Mapping[str, Any]:
    """What a link needs to reach it."""
    from celery_parrot.coordination.redis import Cluster, SentinelMaster

    if address.sentinel is not None:
        known = address.sentinel
        return {
            "target": SentinelMaster(
                address.nodes, known.master, address.options, known.options, known.min_other_sentinels
            )
        }
    if address.cluster:
        return {"target": Cluster(address.nodes, address.options)}
    return {"target": address.url, "options": address.options}


def _tells(db: Any) -> bool:
    """Whether the database tells of changes; the others are asked once a sync."""
    return hasattr(db, "wake_channel") and db.engine.dialect.name == "postgresql"


def _decides(store: object) -> bool:
    return hasattr(store, "advance") and hasattr(store, "prove")
