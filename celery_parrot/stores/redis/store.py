"""The redis store: definitions in Redis, next to the run state and history that the coordinator keeps there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.fire import FireRecord
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols.editing import Change, Page, State, Stored, Written
from celery_parrot.protocols.outbox import Mark, Registration
from celery_parrot.protocols.stores import Due
from celery_parrot.stores.redis.definitions import STORE, DefinitionCache
from celery_parrot.stores.redis.edits import Editor
from celery_parrot.stores.redis.listing import Listing
from celery_parrot.stores.redis.scan import Scanner
from celery_parrot.stores.redis.server import Scripts, Server


class RedisStore:
    """A ``ScheduleStore`` and ``DefinitionStore`` in Redis or Valkey.

    Commits of its schedules are the coordinator's, in one step with its own data, so it works on the coordinator's
    server and by its connection. Every call raises :exc:`~celery_parrot.errors.Unreachable` if that cannot be asked.
    Thread-safe; usable on both sides of a fork, as the coordinator is.

    :param server: the :class:`~celery_parrot.coordination.redis.RedisCoordinator` of this process.
    :param timezone: the zone of definitions that name none (``app.conf.timezone``).
    :param allowed_tasks: what definitions may call; one that calls something else is broken
        (``parrot_allowed_tasks``).
    """

    name = STORE

    def __init__(self, server: Server, *, timezone: str = "UTC", allowed_tasks: AllowedTasks = EVERY_TASK) -> None:
        scripts = Scripts(server)
        cache = DefinitionCache(timezone, allowed=allowed_tasks)
        self._server = server
        self._scripts = scripts
        self._scanner = Scanner(scripts, cache)
        self._editor = Editor(scripts, cache, self._scanner.forget)
        self._listing = Listing(scripts, cache)

    def __repr__(self) -> str:
        return f"RedisStore({self._server!r})"

    def now(self) -> datetime:
        """The server's clock, UTC."""
        return self._scripts.now()

    # --- ScheduleStore ---

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """See the protocol. One round trip for all kinds; another one only where something has to be put right."""
        return self._scanner.due(before, kinds, limit)

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """See the protocol."""
        return self._scanner.due_elsewhere(before, kinds, limit)

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """See the protocol. After a :meth:`due` of these kinds it asks nobody."""
        return self._scanner.next_due(kinds)

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        """See the protocol."""
        return self._scanner.definitions(schedule_ids)

    def registrations(self) -> Sequence[Registration]:
        """None: a mark is made together with its definition."""
        return ()

    def learn(self, marks: Iterable[Mark]) -> None:
        """See the protocol."""
        self._scanner.learn(marks)

    def forget_marks(self) -> None:
        """Each scan reads the marks anew."""

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        """Marks that this beat moved lately, for a server that lost its last writes. A server that lost everything
        lost the definitions, too; then they mean nothing."""
        return self._scanner.remembered()

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
        return self._listing.fires(schedule_id, limit, before)
