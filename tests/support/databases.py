"""PostgreSQL and MariaDB: one shared server each, a database of its own for each test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pymysql

from tests.support.services import unavailable, unique

POSTGRESQL_URL = "postgresql://postgres@127.0.0.1:5432/postgres"
MYSQL_URL = "mysql://root@127.0.0.1:3306"


def _name() -> str:
    return f"parrot_test_{unique(12)}"


@contextlib.contextmanager
def own_postgresql() -> Iterator[str]:
    """A URL of an empty PostgreSQL database, dropped afterwards."""
    server = os.environ.get("PARROT_TEST_POSTGRESQL_URL", POSTGRESQL_URL)
    parts = urlsplit(server)
    try:
        connection = psycopg.connect(server, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as exc:
        unavailable(
            f"PostgreSQL on {parts.hostname}:{parts.port or 5432} ({str(exc).splitlines()[0]})",
            "Start it, or set PARROT_TEST_POSTGRESQL_URL to a server where databases may be created.",
        )
    with connection:
        name = _name()
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield parts._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextlib.contextmanager
def own_mysql() -> Iterator[str]:
    """A URL of an empty MariaDB or MySQL database, dropped afterwards."""
    server = os.environ.get("PARROT_TEST_MYSQL_URL", MYSQL_URL)
    parts = urlsplit(server)
    try:
        connection = pymysql.connect(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 3306,
            user=parts.username or "root",
            password=parts.password or "",
            connect_timeout=3,
            autocommit=True,
        )
    except pymysql.err.OperationalError as exc:
        unavailable(
            f"MariaDB or MySQL on {parts.hostname}:{parts.port or 3306} ({exc})",
            "Start it, or set PARROT_TEST_MYSQL_URL to a server where databases may be created.",
        )
    with contextlib.closing(connection):
        name = _name()
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        try:
            yield parts._replace(path=f"/{name}").geturl()
        finally:
            with connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE `{name}`")
