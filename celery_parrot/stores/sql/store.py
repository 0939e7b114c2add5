"""The db store: definitions, run state and history in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.fire import Fire, FireRecord, Namespace
from celery_parrot.model.plan import Verdict
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols.deliveries import Parcel
from celery_parrot.protocols.editing import Change, Page, State, Stored, Written
from celery_parrot.protocols.ledger import Advance, Carried
from celery_parrot.protocols.outbox import Mark, Registration
from celery_parrot.protocols.stores import Due
from celery_parrot.stores.sql.advance import Advancer
from celery_parrot.stores.sql.definitions import STORE
from celery_parrot.stores.sql.edits import Editor
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.history import History
from celery_parrot.stores.sql.listing import Listing
from celery_parrot.stores.sql.owed import Owed
from celery_parrot.stores.sql.record import Recorder
from celery_parrot.stores.sql.scan import Scanner
from celery_parrot.stores.sql.wake import SqlWake


class SqlStore:
    """A ``ScheduleStore``, ``RowStore``, ``Owing`` and ``DefinitionStore`` on PostgreSQL, MySQL or MariaDB, or SQLite.

    The tables have to be there (:func:`~celery_parrot.stores.sql.upgrade`). Nothing is connected before the first
    call. Every call raises :exc:`~celery_parrot.errors.Unreachable` if the database cannot be asked. Thread-safe.

    :param target: a database URL, or a SQLAlchemy engine, which keeps its own settings.
    :param schema: where the tables are (``parrot_database_schema``).
    :param options: further arguments of ``create_engine``, for a URL.
    :param clock: for pauses between tries; decisions are made by the callers' now and the database's clock.
    :param timezone: the zone of rows that name none (``app.conf.timezone``).
    :param namespace: names fires in history whose commit has to be proven; without it their id comes a little later.
    :param max_failures: so many failures in a row disable a schedule (``parrot_max_consecutive_failures``); 0: none
        ever does.
    :param allowed_tasks: what rows may call; one that calls something else is broken (``parrot_allowed_tasks``).
    """

    name = STORE

    def __init__(
        self,
        target: str | Engine,
        *,
        schema: str | None = None,
        options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        history_days: float = 30.0,
        history_limit: int = 1000,
        timezone: str = "UTC",
        namespace: Namespace | None = None,
        max_failures: int = 3,
        allowed_tasks: AllowedTasks = EVERY_TASK,
    ) -> None:
        self._clock = clock or SystemClock()
        self._db = Database(target, self._clock, schema=schema, options=options)
        self._history = History(self._db, history_days, history_limit)
        self._scanner = Scanner(self._db, timezone, allowed_tasks)
        self._owed = Owed(self._db)
        self._advancer = Advancer(self._db, self._history, self._owed, namespace)
        self._recorder = Recorder(self._db, self._owed, timezone, max_failures)
        self._editor = Editor(self._db, self._scanner.settle, timezone)
        self._listing = Listing(self._db, timezone, allowed_tasks)

    def __repr__(self) -> str:
        return f"SqlStore({str(self._db)!r})"

    @property
    def engine(self) -> Engine:
        """The engine in use."""
        return self._db.engine

    @property
    def schema(self) -> str | None:
        """Where the tables are; None: the connection's default."""
        return self._db.schema

    def wake_channel(self) -> SqlWake:
        """A channel that wakes when a row is changed, by whatever client."""
        return SqlWake(self._db, self._clock)

    def now(self) -> datetime:
        """The database's clock, UTC."""
        return self._db.now()

    def close(self) -> None:
        """Close the connections, unless the engine is the user's."""
        self._db.close()

    # --- ScheduleStore ---

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """See the protocol. Also works out edits, and sets and clears ``broken_reason``."""
        return self._scanner.due(before, kinds, limit)

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """See the protocol."""
        return self._scanner.due_elsewhere(before, kinds, limit)

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """See the protocol."""
        return self._scanner.next_due(kinds)

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        """See the protocol."""
        return self._scanner.definitions(schedule_ids)

    def registrations(self) -> Sequence[Registration]:
        """None: the marks are in the rows."""
        return ()

    def learn(self, marks: Iterable[Mark]) -> None:
        """Nothing to learn: the next scan reads the mark from the row."""

    def forget_marks(self) -> None:
        """Nothing is remembered outside the rows."""

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        """Nothing that the coordinator would need."""
        return (), ()

    # --- RowStore ---

    def advance(self, moves: Sequence[Advance], beat: str) -> Sequence[tuple[Verdict, datetime | None]]:
        """See the protocol. Fires that ``max_fires`` has no room for get no history row, and :meth:`prove` false."""
        return self._advancer.advance(moves, beat)

    def prove(self, fires: Sequence[Fire]) -> Sequence[bool]:
        """See the protocol."""
        return self._advancer.prove(fires)

    def record(self, items: Sequence[Carried]) -> None:
        """See the protocol."""
        self._recorder.record(items)

    def owed(self, *, limit: int = 100) -> Sequence[Parcel]:
        """See :class:`~celery_parrot.protocols.Owing`."""
        return self._owed.read(limit)

    def settled(self, ids: Sequence[str]) -> None:
        """See :class:`~celery_parrot.protocols.Owing`."""
        self._owed.settle(ids)

    def lock_unavailable(self, schedule_ids: Sequence[str]) -> None:
        """See the protocol."""
        self._recorder.lock_unavailable(schedule_ids)

    def prune(self, *, limit: int = 1000) -> int:
        """See the protocol."""
        return self._history.prune(limit)

    # --- DefinitionStore ---

    def insert(self, schedules: Sequence[Schedule]) -> Sequence[Written]:
        """See the protocol. An id that is no UUID is replaced by a new one."""
        return self._editor.insert(schedules)

    def replace(self, changes: Sequence[Change]) -> Sequence[tuple[Written, int]]:
        """See the protocol."""
        return self._editor.replace(changes)

    def delete(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """See the protocol."""
        return self._editor.delete(schedule_ids, version)

    def hold(self, schedule_ids: Sequence[str], by: str, note: str, version: int | None = None) -> Sequence[Written]:
        """See the protocol."""
        return self._editor.hold(schedule_ids, by, note, version)

    def release(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """See the protocol."""
        return self._editor.release(schedule_ids, version)

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        """See the protocol."""
        return self._listing.get(names_or_ids)

    def find(
        self,
        *,
        kind: str | None = None,
        state: State | None = None,
        text: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> Page:
        """See the protocol."""
        return self._listing.find(kind, state, text, after, limit)

    def names_with(self, text: str, limit: int) -> Sequence[str]:
        """See the protocol."""
        return self._listing.names_with(text, limit)

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        """See the protocol."""
        return self._history.fires(schedule_id, limit, before)
