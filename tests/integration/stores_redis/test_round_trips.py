"""How often a tick asks the server: by the batch, never by the fire."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery import Celery

from celery_parrot import Parrot
from celery_parrot.coordination.redis.link import Link
from celery_parrot.runtime.wiring import beat as beat_of
from tests.support.redis_server import PrivateRedis

FEW, MANY = 100, 450


def scripts_of_a_rush(server: PrivateRedis, count: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scripts run by the tick that sends so many schedules, all due at once."""
    server.flush()
    app = Celery("test", broker=server.url(), set_as_current=False)
    app.conf.update(parrot_redis_url=server.url(), parrot_coordination="redis")
    schedules = Parrot(app).schedules
    schedules.create_many(
        {"name": f"s{n}", "target": "t", "store": "redis", "schedule_type": "once", "schedule_config": config}
        for n in range(count)
        for config in [{"run_date": "2026-01-01T00:00:00Z"}]
    )
    asked: list[str] = []
    run = Link.run

    def noted(self: Link, script: object, *args: object) -> object:
        asked.append(getattr(script, "name"))  # noqa: B009
        return run(self, script, *args)  # type: ignore[arg-type]

    beat = beat_of(app)
    with server.client() as client, monkeypatch.context() as patch:
        patch.setattr(Link, "run", noted)
        beat.tick()
        sent = client.llen("celery")
    beat.close(1)
    assert sent == count
    return asked


@pytest.mark.keeps_keys("flushed in between")
def test_scan_commit_and_confirm_are_one_call_a_batch(
    make_redis: Callable[..., PrivateRedis], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_redis()
    few, many = (scripts_of_a_rush(server, count, monkeypatch) for count in (FEW, MANY))
    assert many == few
    for name in ("commit", "confirm"):
        assert few.count(name) == 2, "a small first round, then the rest"
    assert few.count("store-due") == 3, "and once a minute what is routed nowhere"
