"""How many statements a call makes: each is a way to the server and back, while all other calls of the name wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from celery_parrot.protocols import Grant, Limit
from celery_parrot.testing.conformance import Scene
from celery_parrot.testing.conformance.limiting import GPU, Limiting
from tests.integration.coordination_sql.backend import Engines, SqlBackend
from tests.integration.stores_sql.database import SharedDatabases


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqlBackend]:
    databases, engines = SharedDatabases(tmp_path), Engines()
    yield engines.backend(databases.get("sqlite"))
    engines.close()
    databases.close()


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that are made meanwhile."""
    made: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        made.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield made
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_a_release_costs_the_same_however_many_different_things_are_waited_for(backend: SqlBackend) -> None:
    """As where each of many schedules has ``overlap: buffer_one``, and all share a group."""
    few, many = (_statements_of_a_release(backend, waiting) for waiting in (5, 40))
    assert (few["finish"], few["reap"]) == (many["finish"], many["reap"])
    assert many["finish"] < 30


def _statements_of_a_release(backend: SqlBackend, waiting: int) -> dict[str, int]:
    suite, scene = Limiting(), Scene(backend.client(f"waiting{waiting}"), backend)
    scene.register()
    scene.commit(*range(1, waiting + 2))
    grants = [suite.ask(scene, n, Limit(f"schedule:{n}", buffer=1), GPU).grant for n in range(1, waiting + 2)]
    assert grants == [Grant.GRANTED] + [Grant.WAITING] * waiting
    suite.run(scene, 1)
    with counted() as reaped:
        scene.c.reap(holding=True)
    assert not [statement for statement in reaped if "claim.wants" in statement]  # nobody fits: nobody is looked at
    with counted() as finished:
        assert scene.finish(1).named == (scene.key(2),)
    return {"reap": len(reaped), "finish": len(finished)}
