"""Rows that cannot be read or computed: each is kept, listed with its reason, and stops no other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from celery_parrot.model.plan import Verdict
from celery_parrot.protocols.editing import State
from celery_parrot.stores.sql import scan, settle
from celery_parrot.testing.conformance.row_store import RowScene
from tests.integration.stores_sql.database import SqlDatabase
from tests.integration.stores_sql.test_plain_sql import insert, names

BAD = {
    "list config": {"schedule_config": "'[1, 2]'"},
    "text config": {"schedule_config": "'\"monkey\"'"},
    "unknown key": {"schedule_config": "'{\"fortnights\": 1}'"},
    "unknown type": {"schedule_type": "'lunar'"},
    "impossible cron": {"schedule_type": "'cron'", "schedule_config": '\'{"expr": "0 0 31 2 *"}\''},
    "unknown zone": {"policy": '\'{"timezone": "Mars/Olympus"}\''},
    "policy list": {"policy": "'[]'"},
    "policy value": {"policy": '\'{"missed": "monkey"}\''},
    "policy bound": {"policy": '\'{"start_at": "soon"}\''},
    "args object": {"args": "'{\"a\": 1}'"},
    "kwargs list": {"metadata": "'[1]'"},
    "year 1, out of the calendar": {
        "schedule_type": "'once'",
        "schedule_config": '\'{"run_date": "0001-01-01T00:00:00+14:00"}\'',
    },
}
ODD = {
    "year 9999": {"schedule_type": "'once'", "schedule_config": '\'{"run_date": "9999-12-31T23:59:59.999999Z"}\''},
    "year 1": {"schedule_type": "'once'", "schedule_config": '\'{"run_date": "0001-01-01T00:00:00Z"}\''},
    "bound 9999": {"policy": '\'{"end_at": "9999-12-31T23:59:59Z", "start_at": "0001-01-01T00:00:00Z"}\''},
    "deep": {"metadata": '\'{"a": ' + "[" * 20 + "]" * 20 + "}'"},
    "nulls": {"args": "NULL", "metadata": "NULL", "options": "NULL", "policy": "NULL", "prompt": "''"},
    "json nulls": {"args": "'null'", "metadata": "'null'", "options": "'null'", "policy": "'null'"},
    "🦜 ''quoted'' \"double\" `back` 100%": {"prompt": "'🦜 ''it''s'''"},
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_row_harms_no_other(database: SqlDatabase, fault: str) -> None:
    """It gets its reason at the first tick, and loses it at the first after it was mended."""
    id_ = insert(database, "bad", **BAD[fault])
    insert(database, "good")
    store = database.store()
    assert names(database, store, after=60) == ["good"]
    bad = store.get(["bad"])[0]
    assert bad is not None
    assert (bad.state, bad.schedule_id) == (State.BROKEN, id_)
    assert bad.broken_reason
    assert database.sql("SELECT broken_reason FROM service_scheduler WHERE name = 'bad'")[0][0] == bad.broken_reason
    assert [one.name for one in store.find(state=State.BROKEN).items] == ["bad"]
    assert sorted(one.name for one in store.find().items) == ["bad", "good"]
    database.sql(
        "UPDATE service_scheduler SET schedule_type = 'interval', schedule_config = '{\"seconds\"\\: 60}', "
        "policy = '{}', args = '[]', metadata = '{}' WHERE name = 'bad'"
    )
    assert names(database, store, after=60) == ["bad", "good"]
    assert database.sql("SELECT broken_reason FROM service_scheduler WHERE name = 'bad'")[0][0] is None


@pytest.mark.parametrize("name", ODD)
def test_an_odd_row_runs(database: SqlDatabase, name: str) -> None:
    """Far instants, nulls, depth and names that need quoting are nothing bad."""
    insert(database, name, **ODD[name])
    insert(database, "good")
    store = database.store()
    assert "good" in names(database, store, after=60)
    shown = name.replace("''", "'")
    found = store.get([shown])[0]
    assert found is not None
    assert found.broken_reason is None
    assert store.find(text=shown[:5]).items[0].name == shown


@pytest.mark.parametrize("text", ["{", "", '{"a": NaN', "'quoted'"])
def test_text_that_is_no_json(database: SqlDatabase, text: str) -> None:
    """SQLite takes anything; the others refuse it at the door."""
    if database.dialect != "sqlite":
        pytest.skip("this database checks JSON itself")
    insert(database, "good")
    insert(database, "bad")
    store = database.store()
    names(database, store)
    database.sql("UPDATE service_scheduler SET schedule_config = :text WHERE name = 'bad'", text=text)
    database.sql("UPDATE service_scheduler SET policy = :text WHERE name = 'bad'", text=text)
    assert names(database, store, after=60) == ["good"]
    bad = store.get(["bad"])[0]
    assert bad is not None
    assert bad.state is State.BROKEN
    assert "JSON" in (bad.broken_reason or "")


def test_a_ten_megabyte_payload(database: SqlDatabase) -> None:
    """It runs, and is not kept in memory."""
    insert(database, "good")
    store = database.store()
    database.sql(
        "INSERT INTO service_scheduler (name, target_kind, target_name, schedule_type, schedule_config, prompt) "
        "VALUES ('big', 'task', 'x', 'interval', '{\"seconds\"\\: 60}', :prompt)",
        prompt="🦜" * 2_500_000,
    )
    assert names(database, store, after=60) == ["big", "good"]
    assert len(store._scanner.cache) == 1


@pytest.mark.parametrize("instant", ["0001-01-01 00:00:00", "9999-12-31 23:59:59"])
@pytest.mark.parametrize("column", ["created_at", "next_run", "last_due"])
def test_far_stamps(database: SqlDatabase, column: str, instant: str) -> None:
    """A row from year 1 does not make a beat count two thousand years of minutes."""
    insert(database, "far", **{column: f"'{instant}'"})
    insert(database, "good")
    store = database.store()
    assert "good" in names(database, store, after=60)
    found = store.get(["far"])[0]
    assert found is not None
    for due in store.due(database.now(), ("task",), 10):
        assert database.now() - due.mark < timedelta(days=40)


@pytest.mark.parametrize("value", ["infinity", "-infinity", "20000-01-01 00:00:00+00", "0100-01-01 00:00:00+00 BC"])
def test_instants_outside_pythons_calendar(database: SqlDatabase, value: str) -> None:
    """PostgreSQL has more years than Python; one such row must not spoil a whole result."""
    if database.dialect != "postgresql":
        pytest.skip("only PostgreSQL has such instants")
    for column in ("created_at", "next_run", "last_due", "last_run"):
        insert(database, f"far {column}", **{column: f"'{value}'"})
    insert(database, "good")
    store = database.store()
    assert "good" in names(database, store, after=60)
    assert len(store.find().items) == 5


def test_numbers_that_python_refuses(database: SqlDatabase) -> None:
    """A number of five thousand digits is JSON; the row is broken, not the scan."""
    insert(database, "bad", metadata='\'{"n": ' + "9" * 5000 + "}'")
    insert(database, "good")
    store = database.store()
    assert names(database, store, after=60) == ["good"]
    assert [one.name for one in store.find(state=State.BROKEN).items] == ["bad"]


def test_an_unknown_kind_is_not_even_looked_at(database: SqlDatabase) -> None:
    """It is no fault: another beat may route it."""
    insert(database, "a", target_kind="'nobody''s'")
    store = database.store()
    assert names(database, store, after=600) == []
    assert database.sql("SELECT broken_reason, last_due FROM service_scheduler")[0] == (None, None)
    found = store.due_elsewhere(database.now() + timedelta(seconds=60), ("task",), 10)
    assert [due.schedule.name for due in found] == ["a"]


def test_broken_rows_do_not_crowd_out_the_others(database: SqlDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than a batch holds; they are looked at again in turns, once a minute."""
    monkeypatch.setattr(scan, "_BROKEN_AT_ONCE", 4)
    for number in range(10):
        insert(database, f"bad{number}", schedule_type="'lunar'")
    insert(database, "good")
    store = database.store()
    before = database.now() + timedelta(seconds=60)
    assert [due.schedule.name for due in store.due(before, ("task",), 3)] == ["good"]
    database.sql("UPDATE service_scheduler SET broken_reason = 'as an older release said' WHERE name <> 'good'")
    for _ in range(4):
        before += scan.BROKEN_TRIED_AGAIN
        store.due(before, ("task",), 3)
    reasons = {row[0] for row in database.sql("SELECT broken_reason FROM service_scheduler WHERE name <> 'good'")}
    assert len(reasons) == 1
    assert "lunar" in reasons.pop()


def test_a_reason_of_an_older_release_is_cleared_without_an_edit(database: SqlDatabase) -> None:
    """At the first tick of a release that can read the row."""
    insert(database, "a")
    names(database, database.store())
    database.sql("UPDATE service_scheduler SET broken_reason = 'unknown type', next_run = NULL")
    assert names(database, database.store(), after=60) == ["a"]
    assert database.sql("SELECT broken_reason FROM service_scheduler")[0][0] is None


def test_a_long_stretch_is_counted_over_several_ticks(database: SqlDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, in bounded steps, while everything else goes on."""
    monkeypatch.setattr(settle, "COUNTED_AT_ONCE", 7)
    id_ = insert(database, "a")
    scene = RowScene(database)
    scene.due()
    database.advance(60 * 20)
    database.sql("UPDATE service_scheduler SET schedule_config = '{\"hours\"\\: 1}'")
    for _ in range(4):
        scene.due()
    counts = [entry.count for entry in scene.s.fires(id_)]
    assert counts == [6, 7, 7]
    assert database.sql("SELECT count(*) FROM service_scheduler_change")[0][0] == 0


def test_a_bad_row_in_a_batch_of_commits(database: SqlDatabase) -> None:
    """A row spoilt between scan and commit is refused by its version; the others move."""
    insert(database, "a")
    insert(database, "b")
    scene = RowScene(database)
    scene.due()
    database.advance(60)
    made = {one.name: one for one in scene.plans()}
    database.spoil(made["a"].schedule_id)
    assert scene.advance(made["a"], made["b"]) == [Verdict.MOVED, Verdict.COMMITTED]
