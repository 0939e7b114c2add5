"""Texts that somebody wrote past every check, in the verbs that show them."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from tests.integration.cli.conftest import Shop

NAME = "red\x1b[31m\x1b]0;title\x07\nsync-stock  forged  ok\r\u202e"
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.fixture(autouse=True)
def row(shop: Shop) -> None:
    engine = create_engine(shop.app.conf.parrot_database_url)
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO service_scheduler (schedule_id, name, target_kind, target_name, schedule_type, "
                "schedule_config, prompt, note, disabled_by, last_error) VALUES "
                "(:id, :n, 'task', :n, 'interval', '{\"seconds\": 60}', :n, :n, 'person', :n)"
            ),
            {"id": ID, "n": NAME},
        )
    engine.dispose()


@pytest.mark.parametrize(
    "verb", [("list",), ("show", ID), ("fires", ID), ("why", ID), ("next", ID), ("doctor",), ("export",), ("groups",)]
)
def test_nothing_steers_the_terminal(shop: Shop, verb: tuple[str, ...]) -> None:
    """No escape, no other direction of writing, no line that looks like another schedule's."""
    result = shop.ask(*verb)
    left = "\n\u202e" if verb == ("export",) else "\n"  # in quotes of YAML, which is for programs
    for stream in (result.stdout, result.stderr):
        assert not [one for one in stream if not one.isprintable() and one not in left], stream
        assert not [line for line in stream.splitlines() if line.startswith("sync-stock  forged")], stream
