"""The client of one app: the verbs of :mod:`celery_parrot.client` over the backends of its settings."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, cast

from celery import Celery

from celery_parrot.client import CodeDefinitions, CodeSchedules, Coordination, Rules, Schedules
from celery_parrot.clock import Clock
from celery_parrot.instrumentation import flush
from celery_parrot.protocols import Coordinator, DefinitionStore, EventSink
from celery_parrot.runtime import events
from celery_parrot.runtime.backends import DB, REDIS, Backends, attached, backends
from celery_parrot.runtime.celery_schedules import zone_name
from celery_parrot.runtime.config import Settings, load
from celery_parrot.runtime.delivery import callbacks_of
from celery_parrot.runtime.entries import collect, sources
from celery_parrot.runtime.events_edits import Telling
from celery_parrot.runtime.reach import coordinator_at
from celery_parrot.stores.memory import CodeStore

if TYPE_CHECKING:
    from celery_parrot.runtime.parrot import Parrot

ATTRIBUTE = "_celery_parrot"
"""Where an app keeps its facade."""

_LAST_EVENTS_WITHIN = 0.5
_WHY_NONE = "there is no store for new schedules: set parrot_database_url or parrot_redis_url, or write it in the code"


def schedules(parrot: Parrot) -> Schedules:
    """The client of a facade's app.

    Where there is no coordinator, what this very process drives itself is all there is: its own beat is asked.
    """
    settings = parrot.settings
    if settings.coordination == "none":
        beat = parrot.own_beat()
        return over(beat.backends, parrot.app, parrot.clock, code=beat.code, coordinator=beat.coordinator)
    return over(backends(parrot.app, settings, parrot.clock, parrot.stores), parrot.app, parrot.clock, parrot=parrot)


def of_app(app: Celery, clock: Clock) -> Schedules:
    """The client of ``app``, with or without a facade, for a process that drives no beat."""
    parrot = vars(app).get(ATTRIBUTE)
    if parrot is not None and parrot.settings.coordination != "none":
        return cast(Schedules, parrot.schedules)
    stores = () if parrot is None else parrot.stores
    settings = load(app, attached=attached(stores))
    return over(backends(app, settings, clock, stores), app, clock, parrot=parrot)


def over(
    made: Backends,
    app: Celery,
    clock: Clock,
    *,
    parrot: Parrot | None = None,
    code: CodeStore | None = None,
    coordinator: Coordinator | None = None,
    owned: bool = False,
) -> Schedules:
    """A client over these backends.

    :param code: the schedules of the code; collected from the app, when they are first needed, unless given.
    :param owned: the backends end with the client. They always do where no code is given.
    """
    settings = made.settings
    stores: dict[str, DefinitionStore] = {
        name: store for name, store in ((DB, made.db), (REDIS, made.redis)) if store is not None
    }
    collected = partial(_code_of, app, settings, clock, parrot)
    coordinator = coordinator or made.coordinator
    told = events.sink(app, settings, clock)
    return Schedules(
        code=cast(
            CodeDefinitions,
            Telling(CodeDefinitions(collected if code is None else lambda: code, coordinator, clock), told),
        ),
        stores={name: cast(DefinitionStore, Telling(store, told)) for name, store in stores.items()},
        rules=Rules(
            kinds=settings.kinds,
            timezone=zone_name(app.timezone),
            longest_grace=settings.fire_lock_ttl,
            allowed=settings.allowed_tasks,
            tasks=partial(_tasks, app),
            callbacks=partial(callbacks_of, app),
        ),
        clock=clock,
        why_none=_WHY_NONE,
        close=partial(_close, told, made if code is None or owned else None),
        coordination=Coordination(
            coordinator=coordinator,
            namespace=settings.namespace,
            clock=clock,
            where=coordinator_at(settings),
            guard=settings.run_now_lock_ttl,
        ),
    )


def _close(told: EventSink, made: Backends | None) -> None:
    flush(told, _LAST_EVENTS_WITHIN)
    if made is not None:
        made.close()


def _code_of(app: Celery, settings: Settings, clock: Clock, parrot: Parrot | None) -> CodeSchedules:
    app.loader.import_default_modules()  # as a beat does: `include`d modules hold schedules too
    decorated = () if parrot is None else parrot.decorated()
    app.finalize()
    return CodeStore(collect(app, sources(app, decorated), settings, started=clock.now()).definitions)


def _tasks(app: Celery) -> Collection[str]:
    return app.tasks.keys()
