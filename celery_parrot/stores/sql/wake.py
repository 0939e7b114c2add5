"""Waking beats when somebody changes a row: PostgreSQL tells, the others are asked once a sync."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any

from sqlalchemy import text

from celery_parrot.clock import Clock
from celery_parrot.errors import Unreachable
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.tables import SCHEDULES

_RETRY = 1.0


class SqlWake:
    """A :class:`~celery_parrot.protocols.WakeChannel` on ``LISTEN`` / ``NOTIFY``.

    On another database it only sleeps, and :meth:`wake` reaches this object alone. It keeps one connection of its
    own, outside the pool, which is idle but for what it is told.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db, self._clock = database, clock
        self._event = threading.Event()
        self._inside, self._outside = socket.socketpair()
        self._connection: Any = None
        self._channel = ""
        self._next_try = clock.monotonic()
        self._closed = False

    def wait(self, seconds: float) -> bool:
        """Block for at most ``seconds``; true if woken."""
        if self._event.is_set() or not self._db.postgresql:
            return self._woken(self._clock.wait(self._event, seconds))
        connected = self._connection is not None
        if not connected and not self._connect():
            return self._woken(self._clock.wait(self._event, seconds))
        if not connected:
            return True  # whatever happened while nobody listened
        return self._listen(max(seconds, 0.0))

    def _woken(self, woken: bool) -> bool:
        self._event.clear()
        return woken

    def _listen(self, seconds: float) -> bool:
        try:
            pgconn = self._connection.driver_connection.pgconn
            pgconn.consume_input()
            if self._told(pgconn):
                return True
            readable, _, _ = select.select([pgconn.socket, self._outside], [], [], seconds)
            if self._outside in readable:
                self._outside.recv(4096)
                return self._woken(True)
            if not readable:
                return False
            pgconn.consume_input()
            return self._told(pgconn)
        except Exception:  # whatever a broken connection raises
            self._disconnect()
            return False

    @staticmethod
    def _told(pgconn: Any) -> bool:
        told = False
        while pgconn.notifies() is not None:
            told = True
        return told

    def _connect(self) -> bool:
        if self._closed or self._clock.monotonic() < self._next_try:
            return False
        self._next_try = self._clock.monotonic() + _RETRY
        try:
            connection = self._db.engine.raw_connection()
            connection.detach()
            self._connection = connection
            with contextlib.closing(connection.cursor()) as cursor:
                cursor.execute(f'LISTEN "{self._find_channel()}"')
            connection.commit()
        except Exception:  # unreachable: sleep, and try again
            self._disconnect()
            return False
        return True

    def _find_channel(self) -> str:
        """The channel is named by the schema that the table is in, whatever the search path."""
        if not self._channel:
            name = self._db.engine.dialect.identifier_preparer.format_table(self._db.schedules)
            found = self._db.read(
                lambda connection: connection.execute(
                    text("SELECT relnamespace::regnamespace::name::text FROM pg_class WHERE oid = to_regclass(:name)"),
                    {"name": name},
                ).scalar()
            )
            if found is None:
                raise Unreachable(f"there is no table {SCHEDULES}")
            self._channel = f"parrot_{found}"[:63].replace('"', '""')
        return self._channel

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def wake(self) -> None:
        """Wake every beat that shares the table; without ``NOTIFY``, whoever waits on this very object."""
        self._event.set()
        with contextlib.suppress(OSError):
            self._inside.send(b".")
        if not self._db.postgresql:
            return
        with contextlib.suppress(Unreachable):
            channel = self._find_channel().replace('""', '"')
            self._db.write(lambda connection: connection.execute(text("SELECT pg_notify(:c, '')"), {"c": channel}))

    def close(self) -> None:
        """Stop listening; a wait in another thread ends."""
        self._closed = True
        self._event.set()
        with contextlib.suppress(OSError):
            self._inside.send(b".")
        self._disconnect()
