"""What each test gets of the shared servers: something empty of its own."""

from __future__ import annotations

from urllib.parse import urlsplit

import kombu
import psycopg
import pymysql
import pytest

pytestmark = pytest.mark.integration


def test_a_broker_of_its_own(rabbitmq_url: str, queue_prefix: str) -> None:
    """A message put into a queue comes back out of it, under a name that no other test uses."""
    with kombu.Connection(rabbitmq_url, connect_timeout=5) as connection:
        queue = connection.SimpleQueue(f"{queue_prefix}q")
        queue.put({"n": 1})
        message = queue.get(timeout=5)
        message.ack()
        assert message.payload == {"n": 1}
        queue.close()
        kombu.Queue(f"{queue_prefix}q")(connection.default_channel).delete()


def test_an_empty_postgresql_database(postgresql_url: str) -> None:
    """It has no table and its name says what it is for."""
    with psycopg.connect(postgresql_url) as connection:
        row = connection.execute(
            "SELECT current_database(), count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchone()
    assert row is not None
    assert row[0].startswith("parrot_test_")
    assert row[1] == 0


def test_an_empty_mysql_database(mysql_url: str) -> None:
    """It can be used at once."""
    parts = urlsplit(mysql_url)
    connection = pymysql.connect(
        host=parts.hostname or "",
        port=parts.port or 3306,
        user=parts.username or "",
        password=parts.password or "",
        database=parts.path[1:],
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        assert cursor.fetchall() == ()
