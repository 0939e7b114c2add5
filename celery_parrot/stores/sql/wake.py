"""Waking beats when somebody changes a row: PostgreSQL tells, the others are asked once a sync."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

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
        self._listening = threading.Lock()  # held by the thread that waits: what it waits on is not closed under it
        self._inside, self._outside = socket.socketpair()
        self._driver: Any = None
        self._lost: tuple[type[Exception], ...] = (OSError, ValueError)
        self._channel = ""
        self._next_try = clock.monotonic()
        self._closed = False

    def wait(self, seconds: float) -> bool:
        """Block for at most ``seconds``; true if woken."""
        with self._listening:
            if not self._event.is_set() and self._db.postgresql and not self._closed:
                if self._driver is None and self._connect():
                    return True  # whatever happened while nobody listened
                if self._driver is not None:
                    try:
                        return self._listen(max(seconds, 0.0))
                    except self._lost:  # the connection is gone
                        self._disconnect()
            woken = self._clock.wait(self._event, seconds)
            if woken:  # else it may have been set since, and is the next wait's
                self._event.clear()
            return woken

    def _listen(self, seconds: float) -> bool:
        pgconn = self._driver.pgconn
        pgconn.consume_input()
        if self._told(pgconn):
            return True
        readable, _, _ = select.select([pgconn.socket, self._outside], [], [], seconds)
        if self._outside in readable:
            self._outside.recv(4096)
            self._event.clear()
            return True
        if not readable:
            return False
        pgconn.consume_input()
        return self._told(pgconn)

    @staticmethod
    def _told(pgconn: Any) -> bool:
        told = False
        while pgconn.notifies() is not None:
            told = True
        return told

    def _connect(self) -> bool:
        """Listen on a connection of our own; at most one try a second."""
        if self._clock.monotonic() < self._next_try:
            return False
        self._next_try = self._clock.monotonic() + _RETRY
        try:
            channel = self._find_channel()
            self._lost = (OSError, ValueError, self._db.engine.dialect.loaded_dbapi.Error)
            connection = self._db.engine.raw_connection()
            self._driver = connection.driver_connection
            connection.detach()
            with contextlib.closing(self._driver.cursor()) as cursor:
                cursor.execute(f'LISTEN "{channel}"')
            self._driver.commit()
        except (Unreachable, SQLAlchemyError):  # sleep, and try again
            self._disconnect()
            return False
        except self._lost:
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
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def wake(self) -> None:
        """Wake every beat that shares the table; without ``NOTIFY``, whoever waits on this very object."""
        self._interrupt()
        if not self._db.postgresql:
            return
        with contextlib.suppress(Unreachable):
            channel = self._find_channel().replace('""', '"')
            self._db.write(lambda connection: connection.execute(text("SELECT pg_notify(:c, '')"), {"c": channel}))

    def _interrupt(self) -> None:
        self._event.set()
        with contextlib.suppress(OSError):
            self._inside.send(b".")

    def close(self) -> None:
        """Stop listening; a wait in another thread ends."""
        self._closed = True
        self._interrupt()
        with self._listening:
            self._disconnect()
            self._inside.close()
            self._outside.close()
