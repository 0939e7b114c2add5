"""What people do to the table with a plain SQL client while beats run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from celery_parrot.clock import new_id
from celery_parrot.model.fire import Status
from celery_parrot.model.plan import Verdict
from celery_parrot.planning import plan
from celery_parrot.protocols.editing import State
from celery_parrot.stores.sql import SqlStore
from celery_parrot.testing.conformance.row_store import RowScene
from tests.integration.stores_sql.database import SqlDatabase

SEED_INSERT = (
    "INSERT INTO service_scheduler (target_kind, target_name, prompt, method_name, schedule_type, schedule_config, "
    "created_by, created_email, metadata, send_result) VALUES ('agent', 'Reporter', 'say hello', 'ask', 'interval', "
    "'{\"minutes\": 1}', 7, 'a@example.org', '{\"k\": 1}', '{}')"
)


def insert(database: SqlDatabase, name: str, **columns: str) -> str:
    """Insert a minutely row by literals; its id. Values are SQL."""
    schedule_id = as_id(new_id())
    given = {
        "schedule_id": f"'{schedule_id}'",
        "name": f"'{name}'",
        "target_kind": "'task'",
        "target_name": "'app.task'",
        "schedule_type": "'interval'",
        "schedule_config": every(database, 60),
        **columns,
    }
    # A colon in a literal is no parameter.
    values = ", ".join(given.values()).replace(":", "\\:")
    database.sql(f"INSERT INTO service_scheduler ({', '.join(given)}) VALUES ({values})")
    return schedule_id


def every(database: SqlDatabase, seconds: int) -> str:
    """A config whose due times are half a period away from now: no test sees one more come while it runs."""
    offset = (database.now().second + seconds // 2) % seconds
    return f'\'{{"seconds": {seconds}, "offset": {offset}}}\''


def as_id(text: str) -> str:
    """32 hex digits with dashes."""
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def literal(database: SqlDatabase, instant: datetime) -> str:
    """An instant as a plain client writes it."""
    zone = "+00:00" if database.dialect == "postgresql" else ""
    return f"'{instant:%Y-%m-%d %H:%M:%S.%f}{zone}'"


def names(database: SqlDatabase, store: SqlStore, *kinds: str, after: float = 0.0) -> list[str]:
    """Who is due ``after`` seconds from now."""
    before = database.now() + timedelta(seconds=after)
    return sorted(due.schedule.name for due in store.due(before, kinds or ("task",), 100))


def test_an_insert_of_the_seeds_columns_alone_runs(database: SqlDatabase) -> None:
    """The id, the stamps and all our columns have defaults; the id serves as the name."""
    database.sql(SEED_INSERT.replace(":", "\\:"))
    store = database.store()
    assert names(database, store, "agent") == []
    (due,) = store.due(database.now() + timedelta(seconds=60), ("agent",), 10)
    schedule = due.schedule
    assert len(schedule.schedule_id) == 36
    assert (schedule.name, schedule.version, schedule.enabled) == (schedule.schedule_id, 1, True)
    assert (schedule.prompt, schedule.method_name, schedule.kwargs) == ("say hello", "ask", {"k": 1})
    assert abs(due.mark - database.now()) < timedelta(seconds=20)
    assert store.next_due(("agent",)) is not None


def test_ids_are_distinct(database: SqlDatabase) -> None:
    """A default that is evaluated once a row."""
    for _ in range(3):
        database.sql(SEED_INSERT.replace(":", "\\:"))
    assert len({row[0] for row in database.sql("SELECT schedule_id FROM service_scheduler")}) == 3


def test_an_insert_whose_first_due_time_passed_before_anybody_looked(database: SqlDatabase) -> None:
    """Its mark is its creation, so the due time after it is there to be fired."""
    insert(database, "a")
    database.advance(61)
    scene = RowScene(database)
    (made,) = scene.plans()
    assert len(made.fires) + sum(gone.count for gone in made.not_fired) in (1, 2)


def test_a_next_run_given_in_an_insert_is_trusted(database: SqlDatabase) -> None:
    """Nothing is due before it, and it itself is."""
    now = database.now()
    store = database.store()
    minute = now.replace(second=0, microsecond=0)
    whole = {"schedule_config": "'{\"minutes\": 1}'"}
    insert(database, "later", next_run=literal(database, minute + timedelta(minutes=5)), **whole)
    insert(database, "earlier", next_run=literal(database, minute - timedelta(minutes=2)), **whole)
    insert(database, "between", next_run=literal(database, minute + timedelta(minutes=3, seconds=7)), **whole)
    assert names(database, store) == ["earlier"]
    (due,) = store.due(now, ("task",), 10)
    assert due.trigger.next_after(due.mark) == minute - timedelta(minutes=2)
    store.due(now, ("task",), 10)
    rows = {row[0]: row[1] for row in database.sql("SELECT name, next_run FROM service_scheduler")}
    assert str(rows["later"])[:16] == f"{minute + timedelta(minutes=5):%Y-%m-%d %H:%M}"
    assert str(rows["between"])[:16] == f"{minute + timedelta(minutes=4):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize("column", ["prompt", "args", "options", "target_name", "metadata", "callbacks", "tenant"])
def test_an_edit_of_an_argument_bumps_the_version_only(database: SqlDatabase, column: str) -> None:
    """Mark and next run stay, whoever edits."""
    insert(database, "a")
    store = database.store()
    names(database, store)
    before = database.sql("SELECT last_due, next_run, updated_at FROM service_scheduler")[0]
    value = {"args": "'[1]'", "options": '\'{"queue"\\: "q"}\'', "metadata": "'{\"x\"\\: 1}'", "callbacks": "'[1]'"}
    database.sql(f"UPDATE service_scheduler SET {column} = {value.get(column, repr('new'))}")
    after = database.sql("SELECT last_due, next_run, updated_at, version FROM service_scheduler")[0]
    assert after[:2] == before[:2]
    assert after[3] == 2
    assert after[2] > before[2]
    assert database.sql("SELECT count(*) FROM service_scheduler_change")[0][0] == 0


def test_run_state_bumps_nothing(database: SqlDatabase) -> None:
    """Else every fire would look like an edit."""
    insert(database, "a")
    store = database.store()
    names(database, store)
    before = database.sql("SELECT version, updated_at, next_run FROM service_scheduler")
    database.sql(
        "UPDATE service_scheduler SET run_count = 9, last_status = 'x', last_result = 'y', last_callbacks = '[2]'"
    )
    assert database.sql("SELECT version, updated_at, next_run FROM service_scheduler") == before


def test_many_rows_in_one_statement(database: SqlDatabase) -> None:
    """Each gets its own version, mark and note."""
    for number in range(5):
        insert(database, f"s{number}")
    store = database.store()
    names(database, store)
    database.advance(300)
    database.sql("UPDATE service_scheduler SET schedule_config = '{\"hours\"\\: 1}'")
    assert names(database, store) == []
    rows = database.sql("SELECT version, next_run FROM service_scheduler")
    assert [row[0] for row in rows] == [2] * 5
    assert all(row[1] is not None for row in rows)
    found = database.sql("SELECT status, reason, count FROM service_scheduler_fire")
    assert {tuple(row) for row in found} == {("missed", "superseded", 5)}
    assert len(found) == 5


def test_disable_and_enable(database: SqlDatabase) -> None:
    """It stops at once; enabling fires nothing of its own, and the phase stays."""
    insert(database, "a")
    store, other = database.store(), database.store()
    assert names(database, other, after=60) == ["a"]
    database.sql("UPDATE service_scheduler SET enabled = false")
    for one in (store, other):
        assert names(database, one, after=600) == []
        assert one.next_due(("task",)) is None
    found = store.get(["a"])[0]
    assert found is not None
    assert found.state is State.PAUSED
    database.advance(600)
    database.sql("UPDATE service_scheduler SET enabled = true")
    assert names(database, store) == []
    (due,) = other.due(database.now() + timedelta(seconds=60), ("task",), 10)
    assert due.trigger.next_after(due.mark) == due.trigger.next_after(database.now())
    assert store.fires(due.schedule.schedule_id) == []


def test_two_edits_before_anybody_looks(database: SqlDatabase) -> None:
    """Each accounts for its own stretch of time, under the definition of that time."""
    id_ = insert(database, "a")
    store = database.store()
    names(database, store)
    database.advance(600)
    database.sql(f"UPDATE service_scheduler SET schedule_config = {every(database, 30)}".replace(":", "\\:"))
    database.advance(600)
    database.sql("UPDATE service_scheduler SET schedule_config = '{\"hours\"\\: 1}'")
    assert names(database, store) == []
    entries = store.fires(id_)
    assert [(entry.reason, entry.count) for entry in entries] == [("superseded", 20), ("superseded", 10)]


def test_an_edit_of_jitter_moves_no_mark(database: SqlDatabase) -> None:
    """It moves the next sending instant."""
    insert(database, "a", schedule_config="'{\"hours\": 1}'")
    store = database.store()
    names(database, store)
    before = database.sql("SELECT last_due, next_run FROM service_scheduler")[0]
    database.sql("UPDATE service_scheduler SET policy = '{\"jitter\"\\: 1200}'")
    names(database, store)
    after = database.sql("SELECT last_due, next_run FROM service_scheduler")[0]
    assert after[0] == before[0]
    assert after[1] is not None
    assert after[1] > before[1]


def test_a_next_run_cleared_by_hand_is_computed_again(database: SqlDatabase) -> None:
    """From the mark as it is: nothing is lost."""
    insert(database, "a")
    store = database.store()
    names(database, store)
    before = database.sql("SELECT last_due, next_run FROM service_scheduler")
    database.sql("UPDATE service_scheduler SET next_run = NULL")
    assert store.next_due(("task",)) is not None
    names(database, store)
    assert database.sql("SELECT last_due, next_run FROM service_scheduler") == before


def test_a_next_run_set_by_hand_makes_no_due_time(database: SqlDatabase) -> None:
    """The row is looked at, found not to be due, and set right."""
    insert(database, "a", schedule_config="'{\"days\": 1}'")
    store = database.store()
    names(database, store)
    before = database.sql("SELECT last_due, next_run FROM service_scheduler")
    database.sql(f"UPDATE service_scheduler SET next_run = {literal(database, database.now())}".replace(":", "\\:"))
    assert names(database, store, after=1) == []
    assert database.sql("SELECT last_due, next_run FROM service_scheduler") == before


def test_a_resume_by_hand_is_a_resume(database: SqlDatabase) -> None:
    """What came while it was paused is skipped, not missed."""
    id_ = insert(database, "a")
    store = database.store()
    names(database, store)
    store.hold([id_], "person", "")
    database.advance(300)
    database.sql("UPDATE service_scheduler SET disabled_by = NULL")
    assert names(database, store) == []
    (entry,) = store.fires(id_)
    assert (entry.status, entry.reason, entry.count) == (Status.SKIPPED, "paused", 5)


def test_delete_stops_it(database: SqlDatabase) -> None:
    """Also between scan and commit."""
    insert(database, "a")
    scene = RowScene(database)
    scene.due()
    database.advance(60)
    (made,) = scene.plans()
    database.sql("DELETE FROM service_scheduler")
    assert scene.advance(made) == [Verdict.UNKNOWN]
    assert scene.names(after=600) == []
    assert database.sql("SELECT count(*) FROM service_scheduler_change")[0][0] == 0


def test_an_edit_between_scan_and_commit_never_fires_stale_fields(database: SqlDatabase) -> None:
    """Trace 22: the commit fails on the version and the row is planned anew."""
    insert(database, "a")
    scene = RowScene(database)
    scene.due()
    database.advance(60)
    (made,) = scene.plans()
    database.sql("UPDATE service_scheduler SET prompt = 'new'")
    assert scene.advance(made) == [Verdict.MOVED]
    (again,) = scene.plans()
    assert again.fires == made.fires
    assert scene.due()[0].schedule.prompt == "new"


def test_conservation_over_an_edit(database: SqlDatabase) -> None:
    """Every due time before it is one of fired and superseded, none both."""
    id_ = insert(database, "a")
    scene = RowScene(database)
    scene.due()
    database.advance(120)
    due = scene.due()[0]
    made = plan(due.schedule, due.trigger, due.mark, database.now(), on_time=3600)
    assert made is not None
    scene.advance(made)
    database.advance(180)
    database.sql("UPDATE service_scheduler SET schedule_config = '{\"hours\"\\: 1}'")
    scene.due()
    entries = scene.s.fires(id_)
    assert sum(entry.count for entry in entries if entry.status is Status.PENDING) == 2
    assert sum(entry.count for entry in entries if entry.reason == "superseded") == 3


def test_ids_as_other_tools_spell_them(database: SqlDatabase) -> None:
    """32 hex digits match, in upper case too."""
    id_ = insert(database, "a")
    store = database.store()
    for spelling in (id_.replace("-", ""), id_.upper()):
        found = store.get([spelling])[0]
        assert found is not None
        assert found.name == "a"
        assert list(store.definitions([spelling])) != []


def test_rows_that_an_orm_wrote_without_dashes(database: SqlDatabase) -> None:
    """SQLite and MySQL keep them as they are; they run like any other."""
    if database.dialect == "postgresql":
        pytest.skip("PostgreSQL has a type for ids")
    insert(database, "a", schedule_id=f"'{new_id()}'")
    scene = RowScene(database)
    scene.due()
    database.advance(60)
    (made,) = scene.plans()
    assert len(made.schedule_id) == 32
    assert scene.advance(made) == [Verdict.COMMITTED]


def test_instants_as_sqlite_users_write_them(database: SqlDatabase) -> None:
    """ISO texts, zones and date functions sort and compare like our own."""
    if database.dialect != "sqlite":
        pytest.skip("only SQLite has no type for instants")
    now = database.now()
    at = (now + timedelta(minutes=2)).replace(microsecond=0)
    madrid = at + timedelta(hours=1)
    insert(database, "iso", next_run=f"'{at:%Y-%m-%dT%H:%M:%S}'")
    insert(database, "zone", next_run=f"'{madrid:%Y-%m-%dT%H:%M:%S}+01:00'")
    insert(database, "z", next_run=f"'{at:%Y-%m-%dT%H:%M:%S}Z'")
    insert(database, "prose", next_run="'tomorrow'", last_due="'yesterday'")
    rows: dict[str, Any] = {row[0]: row[1] for row in database.sql("SELECT name, next_run FROM service_scheduler")}
    spelled = f"{at:%Y-%m-%d %H:%M:%S}.000000"
    assert rows == {"iso": spelled, "zone": spelled, "z": spelled, "prose": None}
    assert names(database, database.store()) == []


def test_pages_go_on_across_rows_with_and_without_a_name(database: SqlDatabase) -> None:
    """One order of what people see, whichever index each comes from."""
    shown = [f"{first}-named" for first in "28b"]
    for name in shown:
        insert(database, name)
    shown += [insert(database, f"unnamed{n}") for n in range(4)]
    database.sql("UPDATE service_scheduler SET name = NULL WHERE name LIKE 'unnamed%'")
    found: list[str] = []
    after, store = "", database.store()
    while True:
        page = store.find(after=after, limit=2)
        found += [one.name for one in page.items]
        after = page.after
        if not after:
            break
    assert found == sorted(shown)
