"""What the verbs read from: the schedules of every store, and the coordinator of the app's settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Final

import click
from celery import Celery

from celery_parrot.cli.lazy import closest
from celery_parrot.client import Coordination, Schedules
from celery_parrot.clock import SystemClock
from celery_parrot.errors import ConfigurationError, ParrotError, ScheduleNotFound, Unreachable
from celery_parrot.protocols import Coordinator
from celery_parrot.runtime.backends import attached, connect, sql_store
from celery_parrot.runtime.clients import ATTRIBUTE, of_app
from celery_parrot.runtime.config import Settings, load
from celery_parrot.runtime.reach import coordinator_at, database_out_of_reach, out_of_reach

if TYPE_CHECKING:
    from celery_parrot.cli.diagnosis import Seen
    from celery_parrot.runtime.survey import Worker

logger = logging.getLogger("celery_parrot")

_NOWHERE: Final = logging.NullHandler()


class Source:
    """One app. Opens a connection when something is asked for.

    :ivar seen: what a doctor saw of the schedules, once one has looked.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        parrot = vars(app).get(ATTRIBUTE)
        self.settings: Settings = load(app, attached=attached(() if parrot is None else parrot.stores))
        self.seen: Seen | None = None
        self._handler: logging.Handler | None = None

    @cached_property
    def coordinator(self) -> Coordinator:
        """Where the beats agree.

        :raises ParrotError: if they do not: without a coordinator nothing can be read from outside a beat.
        """
        self.must_be_shared()
        return connect(self.settings, SystemClock())

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules of every store."""
        return of_app(self._app, SystemClock())

    @cached_property
    def database(self) -> Database:
        """The database of the settings. Raises ConfigurationError if there is none, or it cannot be used."""
        if self.settings.database is None:
            raise ConfigurationError(
                "parrot_database_url", None, "names no database", "Set it, e.g. 'postgresql://user:password@host/app'."
            )
        return Database(self._app, self.settings)

    def must_be_shared(self) -> None:
        """:raises ParrotError: if run state and history are known to one process only."""
        if self.settings.coordination == "none":
            raise ParrotError(
                "this app has no coordinator, so only its one beat knows what happened; "
                "set parrot_redis_url to see it from outside"
            )

    @property
    def name(self) -> str:
        """The registered name."""
        return self.settings.name

    @property
    def where(self) -> str:
        """The coordinator, for a sentence; no password."""
        return coordinator_at(self.settings)

    @property
    def zone(self) -> tzinfo:
        """The app's time zone, in which instants are shown."""
        return self._app.timezone

    @cached_property
    def coordination(self) -> Coordination:
        """Who beats. Raises ParrotError as :attr:`coordinator`."""
        return Coordination(
            coordinator=self.coordinator, namespace=self.settings.namespace, clock=SystemClock(), where=self.where
        )

    def workers(self) -> Mapping[str, Worker]:
        """Each live worker. Raises Unreachable if the broker is."""
        from celery_parrot.runtime.survey import live_workers

        return live_workers(self._app)

    def queue_of(self, task: str) -> str | None:
        """Where Celery sends a task that nothing else is said of."""
        from celery_parrot.runtime.survey import routed_queue

        return routed_queue(self._app, task)

    def said(self) -> None:
        """Until closed, the warnings of what is done here go to stderr."""
        self._handler = logging.StreamHandler()
        self._handler.setFormatter(logging.Formatter("Warning: %(message)s"))
        self._handler.setLevel(logging.WARNING)
        logger.addHandler(self._handler)

    def close(self) -> None:
        """Let go of the connections, if there are any."""
        for name in ("coordinator", "schedules"):
            if (used := self.__dict__.get(name)) is not None:
                used.close()
        if self._handler is not None:
            logger.removeHandler(self._handler)


class Database:
    """The tables of the db store. What goes wrong is told in one sentence, without a password."""

    def __init__(self, app: Celery, settings: Settings) -> None:
        assert settings.database is not None
        self._address = settings.database
        self._store = sql_store(app, settings, SystemClock())
        self.where = f"The database at {settings.database}"

    def current(self) -> str | None:
        """The revision that the tables are at, None if there are none."""
        from celery_parrot.stores.sql import current

        self._store.now()
        return current(self._store.engine, self._store.schema)

    @property
    def head(self) -> str:
        """The newest revision that this release brings."""
        from celery_parrot.stores.sql import head

        return head()

    def upgrade(self, revision: str) -> None:
        """Bring the tables up to ``revision``."""
        from celery_parrot.stores.sql import make_engine, upgrade

        # Of its own: the store's cuts long statements off, and these may well be long.
        engine = make_engine(self._address.url, self._address.options, bounded=False)
        try:
            upgrade(engine, self._address.schema, revision)
        finally:
            engine.dispose()

    def problems(self) -> list[str]:
        """What is missing for this release to run."""
        from celery_parrot.stores.sql import check

        found: list[str] = check(self._store.engine, self._store.schema)
        return [problem.partition("; run ")[0] for problem in found]

    @contextmanager
    def told(self) -> Iterator[None]:
        """Failures of database and migrations as a sentence with the address. Closes the connections."""
        try:
            yield
        except Unreachable as error:
            raise click.ClickException(database_out_of_reach(self.where, error)) from None
        except ParrotError:
            raise
        except Exception as error:
            # The driver's own words: the rest of SQLAlchemy's text is the statement.
            original = getattr(error, "orig", None) or error
            first = str(original).strip().splitlines()[:1] or [type(original).__name__]
            raise click.ClickException(f"{self.where}: {first[0].rstrip('.')}.") from None
        finally:
            self._store.close()


def open_source(ctx: click.Context) -> Source:
    """The source for the app of ``celery -A app``."""
    # What a beat would log of schedules and settings as it starts is not an answer to what was asked here.
    logger.addHandler(_NOWHERE)
    return Source(ctx.obj.app)


@contextmanager
def opened(ctx: click.Context) -> Iterator[Source]:
    """As :func:`open_source`, closed in the end. Out of reach becomes a sentence that says where, a schedule that does
    not exist one with the closest names."""
    source = open_source(ctx)
    try:
        yield source
    except Unreachable as error:
        raise click.ClickException(out_of_reach(source.settings, error)) from None
    except ScheduleNotFound as error:
        hint = closest(error.name, error.closest) if error.closest else ""
        raise click.ClickException(f"There is no schedule {error.name!r}. {hint}".rstrip()) from None
    finally:
        source.close()


def coordinator_of(app: Celery) -> Coordinator:
    """The coordinator of an app that is set to have one."""
    return Source(app).coordinator
