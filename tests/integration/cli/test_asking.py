"""``run-now`` and ``backfill``, as a person types them; no beat is there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.client import Asked
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import Lease, Outcome
from tests.integration.cli.conftest import Shop


def _end(shop: Shop, fire_id: str, status: Status, **more: Any) -> None:
    """What a beat and a worker would do."""
    coordinator = shop.schedules._coordination.coordinator
    (fire,) = [one for one in coordinator.fires("sync-stock") if one.fire_id == fire_id]
    coordinator.finish(
        [Outcome(lease=Lease(FireKey("sync-stock", fire.due_at, fire.key.nonce), ""), status=status, **more)]
    )


def test_run_now(shop: Shop, redis_client: Any) -> None:
    """It says which fire, and a second one is refused with its id."""
    said = shop.says("run-now", "sync-stock", "--key", "k")
    asked: Asked = shop.schedules.run_now("sync-stock", key="k")
    assert said == f"sync-stock: fire {asked.fire_id} is on its way.\n"
    assert shop.fails("run-now", "sync-stock").startswith(
        f"Error: 'sync-stock' is running already: fire {asked.fire_id}"
    )
    again = shop.json("run-now", "sync-stock", "--key", "k")
    assert (again["fire_id"], again["again"], again["name"]) == (asked.fire_id, True, "sync-stock")
    assert "(asked for before)" in shop.says("run-now", "sync-stock", "--key", "k")
    guard = "parrot:scheduler:scheduler_manager:running:sync-stock"
    assert redis_client.get(guard) == asked.fire_id
    assert 3590 < redis_client.ttl(guard) <= 3600


def test_run_now_waits(shop: Shop) -> None:
    """For its outcome, which is the exit code; not for ever."""
    asked = shop.schedules.run_now("sync-stock", key="k")
    late = shop.fails("run-now", "sync-stock", "--key", "k", "--wait", "--timeout", "0")
    assert late == "Error: After 0 s it is still pending; it goes on."
    _end(shop, asked.fire_id, Status.SUCCESS, output="42")
    assert shop.says("run-now", "sync-stock", "--key", "k", "--wait").splitlines()[-1] == "sync-stock: success: 42."
    assert shop.json("run-now", "sync-stock", "--key", "k", "--wait")["output"] == "42"
    failed = shop.schedules.run_now("sync-stock", key="other")
    _end(shop, failed.fire_id, Status.ERROR, error="E: x")
    result = shop.ask("run-now", "sync-stock", "--key", "other", "--wait")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "sync-stock: error: E: x.")


def test_the_arguments_are_on_the_claim_only(shop: Shop) -> None:
    """Neither what is printed nor the history has them."""
    said = shop.says("run-now", "sync-stock", "--args", '["secret"]', "--kwargs", '{"a": []}', "--json")
    (entry,) = shop.schedules.fires("sync-stock")
    coordinator = shop.schedules._coordination.coordinator
    (claim,) = coordinator.claims([entry.key])
    assert claim is not None
    assert claim.override == '{"args":["secret"],"kwargs":{"a":[]}}'
    assert "secret" not in said + repr(entry) + repr(claim)


MISTAKES = (
    (("run-now", "sync-stok"), "There is no schedule 'sync-stok'. Did you mean sync-stock?", 1),
    (("run-now", "sync-stock", "--args", "1"), "args = ", 1),
    (("run-now", "sync-stock", "--kwargs", "{"), "kwargs = '{'", 1),
    (("run-now", "sync-stock", "--version", "7"), "no longer at version 7", 1),
    (("run-now", "sync-stock", "--timeout", "3"), "--timeout goes with --wait.", 2),
    (("backfill", "sync-stok", "--from", "2026-01-01"), "Did you mean sync-stock?", 1),
    (("backfill", "sync-stock"), "Missing option '--from'", 2),
    (("backfill", "sync-stock", "--from", "soon"), "--from = 'soon': must be an instant", 1),
    (
        ("backfill", "sync-stock", "--from", "2026-01-02", "--to", "2026-01-01"),
        "--to = '2026-01-01': lies before the start",
        1,
    ),
    (("backfill", "sync-stock", "--from", "2026-01-02", "--max-active", "0"), "not in the range x>=1", 2),
)


@pytest.mark.parametrize(("arguments", "sentence", "code"), MISTAKES)
def test_mistakes(shop: Shop, arguments: tuple[str, ...], sentence: str, code: int) -> None:
    """One sentence each, and nothing is asked for."""
    assert sentence in shop.fails(*arguments, code=code)
    assert shop.schedules.fires("sync-stock") == []


def test_backfill_dry_run(shop: Shop) -> None:
    """The due times that would fire, in the app's zone; nothing is written."""
    now = shop.schedules._coordination.now().replace(second=0, microsecond=0)
    start, end = now - timedelta(minutes=9), now - timedelta(minutes=7)
    stretch = ("backfill", "sync-stock", "--from", start.isoformat(), "--to", end.isoformat(), "--dry-run")
    lines = shop.says(*stretch).splitlines()
    assert lines[-1] == "sync-stock: 3 of 3 due times to fire, 0 have fired."
    assert lines[0].startswith(f"{start.astimezone(shop.app.timezone):%Y-%m-%d %H:%M:%S}")
    told = shop.json(*stretch, "--reverse")
    assert told["due_times"] == [at.isoformat() for at in (end, end - timedelta(minutes=1), start)]
    assert shop.schedules.fires("sync-stock") == []
    later = shop.says("backfill", "sync-stock", "--from", (now + timedelta(days=1)).isoformat())
    assert later == "sync-stock: nothing of that is decided yet; it is the schedule's own.\n"
