"""The tables come to be in several ways, and are always the same."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData, inspect, text

from celery_parrot.stores.sql import SqlStore, check, current, head, make_engine, tables, upgrade, version_location
from celery_parrot.stores.sql.migrate import VERSION_TABLE, installed_triggers
from celery_parrot.stores.sql.triggers import trigger_names
from celery_parrot.testing.conformance.row_store import RowScene
from tests.integration.stores_sql.database import DIALECTS, SqlDatabase, empty_url

TABLES = (
    "service_scheduler",
    "service_scheduler_fire",
    "service_scheduler_change",
    "service_scheduler_outcome",
    "service_scheduler_owed",
)
ROOT = Path(__file__).resolve().parents[3]
REVISIONS = ("parrot_0001", "parrot_0002", "parrot_0003", "parrot_0004", "parrot_0005")

DESIGN_COLUMNS = [
    "schedule_id", "target_kind", "target_name", "target_id", "tenant", "prompt", "method_name", "schedule_type",
    "schedule_config", "enabled", "created_by", "created_email", "created_at", "updated_at", "last_run", "next_run",
    "run_count", "last_status", "last_error", "last_error_at", "last_result", "last_result_at",
    "consecutive_failures", "last_delivery_status", "last_delivery_at", "last_callbacks", "metadata", "send_result",
    "callbacks", "name", "args", "options", "policy", "version", "last_due", "auto_count", "disabled_by", "note",
    "broken_reason",
]  # fmt: skip


@pytest.fixture(params=DIALECTS)
def empty(request: pytest.FixtureRequest, tmp_path: Path, full: bool) -> Iterator[Engine]:
    """A database without any table."""
    if request.param == "mysql" and not full:
        pytest.skip("the long form has MariaDB, too (make long)")
    with empty_url(request.param, tmp_path) as url:
        engine = make_engine(url)
        yield engine
        engine.dispose()


def structure(engine: Engine, schema: str | None = None) -> dict[str, Any]:
    """Everything about the tables that could differ."""
    inspector = inspect(engine)
    found: dict[str, Any] = {}
    for table in TABLES:
        found[table] = {
            "columns": [
                (c["name"], str(c["type"]), c["nullable"], _default(c["default"]))
                for c in inspector.get_columns(table, schema=schema)
            ],
            "key": inspector.get_pk_constraint(table, schema=schema)["constrained_columns"],
            "indexes": sorted(
                (i["name"], tuple(i["column_names"]), i["unique"], _default(_text(i.get("dialect_options"))), _made(i))
                for i in inspector.get_indexes(table, schema=schema)
            ),
        }
    with engine.connect() as connection:
        found["triggers"] = sorted(installed_triggers(connection, schema))
    return found


def _made(index: Any) -> tuple[str | None, ...]:
    return tuple(_default(expression) for expression in index.get("expressions", ()))


def _text(options: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted((options or {}).items()))


def _default(value: str | None) -> str | None:
    """Without the schema's name and the parentheses that each database puts where it likes."""
    return None if value is None else re.sub(r"[()\s\"]|\bplace\.", "", value)


def test_fresh_and_migrated_are_the_same(empty: Engine, tmp_path: Path) -> None:
    """What ``create_all`` makes is what the migrations make, triggers included."""
    upgrade(empty)
    with empty_url(empty.dialect.name, _folder(tmp_path)) as url:
        fresh = make_engine(url)
        metadata = MetaData()
        tables(metadata)
        metadata.create_all(fresh)
        assert structure(fresh) == structure(empty)
        assert check(fresh) == []
        fresh.dispose()


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "fresh"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_earlier_revision_leads_to_the_same(empty: Engine, tmp_path: Path, revision: str) -> None:
    """And says where it is."""
    upgrade(empty, revision=revision)
    assert current(empty) == revision
    upgrade(empty)
    assert current(empty) == head() == REVISIONS[-1]
    with empty_url(empty.dialect.name, _folder(tmp_path)) as url:
        other = make_engine(url)
        upgrade(other)
        assert structure(empty) == structure(other)
        other.dispose()


def test_the_columns_are_those_that_were_promised(empty: Engine) -> None:
    """Names are public: tools outside read them. Both named indexes are there."""
    upgrade(empty)
    found = structure(empty)["service_scheduler"]
    assert [column[0] for column in found["columns"]] == DESIGN_COLUMNS
    assert {column[0] for column in found["columns"] if not column[2]} == {
        "schedule_id",
        "target_kind",
        "target_name",
        "schedule_type",
        "schedule_config",
        "version",
        "auto_count",
    }
    indexes = {index[0]: index[1] for index in found["indexes"]}
    assert indexes["idx_service_scheduler_enabled"] == ("enabled",)
    assert indexes["idx_service_scheduler_target"] == ("target_kind", "target_name")
    assert structure(empty)["service_scheduler_fire"]["key"] == ["schedule_id", "due_at", "nonce"]


def test_upgrade_twice_changes_nothing(empty: Engine) -> None:
    """It is part of every deployment."""
    upgrade(empty)
    before = structure(empty)
    upgrade(empty)
    assert structure(empty) == before


def test_check_says_what_is_missing(empty: Engine) -> None:
    """Tables, columns, triggers."""
    assert any("service_scheduler_fire" in problem for problem in check(empty))
    upgrade(empty, revision="parrot_0001")
    assert any("lacks name, args" in problem for problem in check(empty))
    upgrade(empty)
    assert check(empty) == []
    name = sorted(trigger_names(empty.dialect.name))[0]
    with empty.begin() as connection:
        on = " ON service_scheduler" if empty.dialect.name == "postgresql" else ""
        connection.execute(text(f"DROP TRIGGER {name}{on}"))
    (problem,) = check(empty)
    assert name in problem


def test_a_table_that_was_there_before_us_is_taken_over(empty: Engine) -> None:
    """Its rows run on from now: what was due before is nobody's miss; a next run that was planned is kept."""
    upgrade(empty, revision="parrot_0001")
    store = SqlStore(empty)
    coming = (store.now() + timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
    at = f"{coming:%Y-%m-%d %H:%M:%S}" + ("+00" if empty.dialect.name == "postgresql" else "")
    with empty.begin() as connection:
        connection.execute(text(f"DROP TABLE {VERSION_TABLE}"))
        for next_run in (None, at):
            connection.execute(
                text(
                    "INSERT INTO service_scheduler (target_kind, target_name, schedule_type, schedule_config, "
                    "created_at, next_run) VALUES ('task', 'x', 'interval', '{\"hours\"\\: 1}', '2020-01-01', "
                    + ("NULL" if next_run is None else f"'{next_run}'".replace(":", "\\:"))
                    + ")"
                )
            )
    upgrade(empty)
    assert check(empty) == []
    assert list(store.due(store.now(), ("task",), 10)) == []
    runs = sorted(one.run_state.next_run or store.now() for one in store.find().items)
    assert runs == [coming - timedelta(hours=1), coming]


def test_two_upgrades_at_once(empty: Engine) -> None:
    """Every pod runs it at start: they wait for each other."""
    if empty.dialect.name == "sqlite":
        pytest.skip("one file, one process at a time")
    url = empty.url.render_as_string(hide_password=False)
    code = "import sys; from celery_parrot.stores.sql import make_engine, upgrade; upgrade(make_engine(sys.argv[1]))"
    children = [subprocess.Popen([sys.executable, "-c", code, url], cwd=ROOT) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert check(empty) == []


def test_a_users_own_alembic(empty: Engine, tmp_path: Path) -> None:
    """Our revisions as a further version location, beside the user's own."""
    scripts = tmp_path / "alembic"
    config = Config(str(tmp_path / "alembic.ini"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(scripts))
    command.init(config, str(scripts))
    (scripts / "env.py").write_text(
        "from alembic import context\n"
        "context.configure(connection=context.config.attributes['connection'])\n"
        "with context.begin_transaction():\n    context.run_migrations()\n"
    )
    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_path_separator", "os")  # what it was called before Alembic 1.16
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("version_locations", f"{scripts / 'versions'}:{version_location()}")
    with empty.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "heads")
        connection.commit()
    assert check(empty) == []


def test_released_code_runs_on_a_newer_schema(database: SqlDatabase) -> None:
    """A column that a later release adds does not disturb this one, nor do rows that use it."""
    for table in TABLES:
        database.sql(f"ALTER TABLE {table} ADD COLUMN later VARCHAR(20)")
    try:
        scene = RowScene(database)
        _, made = scene.one_due()
        database.sql("UPDATE service_scheduler SET later = 'x'")
        assert scene.plans() == [made]
        scene.advance(made)
        assert len(scene.history()) == 1
        assert scene.get("a").schedule is not None
        assert check(database.engine) == []
    finally:
        for table in TABLES:
            database.sql(f"ALTER TABLE {table} DROP COLUMN later")


def test_a_schema_of_its_own() -> None:
    """PostgreSQL: everything in there, whatever the search path of whoever edits."""
    with empty_url("postgresql", Path()) as url:
        engine = make_engine(url)
        upgrade(engine, "place")
        assert (check(engine, "place"), current(engine, "place")) == ([], head())
        assert not inspect(engine).has_table("service_scheduler")
        upgrade(engine)
        assert structure(engine, "place") == structure(engine)
        store = SqlStore(engine, schema="place")
        with engine.begin() as connection:
            connection.execute(text("SET LOCAL search_path = pg_catalog"))
            connection.execute(
                text(
                    "INSERT INTO place.service_scheduler (name, target_kind, target_name, schedule_type, "
                    "schedule_config) VALUES ('a', 'task', 'x', 'interval', '{\"seconds\"\\: 60}')"
                )
            )
        before = store.now() + timedelta(seconds=60)
        assert [due.schedule.name for due in store.due(before, ("task",), 10)] == ["a"]
        assert list(SqlStore(engine).due(before, ("task",), 10)) == []
        engine.dispose()


def test_a_client_that_may_only_edit_the_table() -> None:
    """PostgreSQL: the triggers run as the owner, so who may edit needs no right on our other tables."""
    with empty_url("postgresql", Path()) as url:
        engine = make_engine(url)
        upgrade(engine)
        with engine.begin() as connection:
            role = "parrot_editor_" + engine.url.database[-8:]  # type: ignore[index]
            connection.execute(text(f"CREATE ROLE {role}"))
            connection.execute(text(f"GRANT INSERT, UPDATE, SELECT, DELETE ON service_scheduler TO {role}"))
            connection.execute(text(f"SET LOCAL ROLE {role}"))
            connection.execute(
                text(
                    "INSERT INTO service_scheduler (name, target_kind, target_name, schedule_type, schedule_config) "
                    "VALUES ('a', 'task', 'x', 'interval', '{\"seconds\"\\: 60}')"
                )
            )
            connection.execute(text("UPDATE service_scheduler SET enabled = false"))
            connection.execute(text("DELETE FROM service_scheduler"))
            connection.execute(text("RESET ROLE"))
            connection.execute(text(f"DROP OWNED BY {role}"))
            connection.execute(text(f"DROP ROLE {role}"))
        engine.dispose()
