"""A table full of faults under a real beat: everything that can run runs, everything else says why it does not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.test_stores_plain_sql import READY, Site, one_will_do
from tests.integration.stores_sql.database import DIALECTS, SqlDatabase, empty_url
from tests.integration.stores_sql.test_bad_rows import BAD, ODD
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

MEGABYTES = 10


@pytest.fixture(params=DIALECTS)
def site(request: pytest.FixtureRequest, private_redis: PrivateRedis, procs: Procs, tmp_path: Path) -> Iterator[Site]:
    """Each database in turn."""
    with empty_url(request.param, tmp_path) as url:
        made = Site(SqlDatabase(url), private_redis, procs)
        yield made
        procs.close()
        made.close()


def test_none_stops_the_others(site: Site, full: bool) -> None:
    """Bad JSON, unknown kind, type and zone, impossible cron, ten megabytes, odd names, the years 1 and 9999."""
    one_will_do(site, full)
    for name, columns in BAD.items():
        site.insert(f"bad: {name}", **columns)
    for name, columns in ODD.items():
        site.insert(f"odd: {name}", **{"options": '\'{"queue": "odd"}\'', **columns})
    site.insert("bad: no json" if site.database.dialect == "sqlite" else "odd: kind of nobody", **(
        {"schedule_config": "'{\"seconds\"'"} if site.database.dialect == "sqlite" else {"target_kind": "'nobody'"}
    ))  # fmt: skip
    # For twice its size, and JSON's own overhead, no server has to be set up otherwise.
    site.database.sql(
        "INSERT INTO service_scheduler (name, target_kind, target_name, schedule_type, schedule_config, options, "
        "metadata, policy) VALUES ('large', 'task', 't.note', 'once', '{\"run_date\"\\: \"2020-01-01T00:00:00Z\"}', "
        '\'{"queue"\\: "large"}\', :payload, \'{"misfire_grace"\\: null}\')'.replace("00:00:00", "00\\:00\\:00"),
        payload='{"text": "' + "x" * (MEGABYTES << 20) + '"}',
    )
    site.insert("good")
    beat = site.beat()
    beat.wait_for_log(READY)
    due = [datetime.fromisoformat(one.headers["parrot"]["due_at"]) for one in site.mail.several("db", 6)]
    assert due == [due[0] + timedelta(seconds=number) for number in range(6)], "each second, whatever else there is"
    (message,) = site.mail.several("large", 1)
    assert len(message.payload[1]["text"]) == MEGABYTES << 20
    known = "SELECT count(*) FROM service_scheduler WHERE name LIKE 'bad: %' AND broken_reason IS NOT NULL"
    bad = len(BAD) + (site.database.dialect == "sqlite")
    wait_until(lambda: site.sql(known)[0][0] == bad, f"a reason for each of {bad} bad rows", 10, explain=beat.tail)
    others = site.sql("SELECT name, broken_reason FROM service_scheduler WHERE name NOT LIKE 'bad: %' "
                      "AND broken_reason IS NOT NULL")  # fmt: skip
    assert others == []
    names: set[str] = set()

    def all_odd() -> bool:
        names.update(message.headers["parrot"]["name"] for message in site.mail.drain("odd"))
        return any("🦜" in name and '"double"' in name and "'quoted'" in name for name in names)

    wait_until(all_odd, "the row with the odd name to run", 10)
    assert beat.alive
    assert "Traceback" not in beat.text()
