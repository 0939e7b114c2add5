"""Scripts that the server has forgotten; keys; access rights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.coordination.redis import COMMANDS, PERMANENT_KEYS
from celery_parrot.coordination.redis.scripts import script
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.fire import Namespace, Status
from celery_parrot.model.plan import NotFired
from celery_parrot.protocols import (
    SLOTS,
    About,
    CallbackReport,
    DeliveryReport,
    DeliveryStatus,
    Drop,
    Lease,
    Limit,
    LimitRequest,
    Memory,
    Outcome,
    Progress,
    Reservation,
    Running,
)
from celery_parrot.protocols.holding import Release
from celery_parrot.testing.conformance import Scene
from tests.integration.coordination.helpers import NAME, connect, scene_of
from tests.support.redis_server import PrivateRedis


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return PERMANENT_KEYS


def live(scene: Scene) -> None:
    """Use every operation, and leave a bit of everything behind."""
    c: Any = scene.c
    scene.register()
    run = NotFired(Status.MISSED, "too_late", scene.due(1), scene.due(2), 2)
    scene.commit(3, 4, 5, 6, 7, not_fired=[run], max_fires=10)
    scene.sweep("b1")
    scene.sweep("b2")
    c.renew([scene.hold(3)])
    c.confirm([scene.hold(4)])
    c.drop([Drop(hold=scene.hold(5), status=Status.SKIPPED, reason="paused")])
    c.take([scene.hold(6)], "b2")
    scene.start(4, "t4")
    c.renew_leases([Lease(scene.key(4), "t4")])
    c.finish([Outcome(lease=Lease(scene.key(4), "t4"), status=Status.ERROR, error="E: e")])
    scene.finish(4, "t9")
    scene.start(7, "t7")
    scene.start(90, "t90", schedule_id="stray")
    c.reap()
    c.leave("b1")
    c.prepare([replace(scene.plan(8, 9, schedule_id="row"), store="db")], "b3", "k")
    c.confirm([scene.hold(8, "b3", schedule_id="row")])
    c.discard([scene.hold(99)], "k")
    c.carried(c.uncarried(limit=0))
    c.hold(["a"], "failures", "why")
    c.holds(["a"])
    c.release([Release(schedule_id="a", name="a", kind="task", expected_mark=scene.due(7), new_mark=scene.due(8))])
    limits(scene)
    parcels(scene)
    seen = c.sweep(scene.beat("b3"))
    c.remember(Memory(outbox=seen.entries, line=seen.line))
    c.remember_running([Running(delivery=scene.delivery(7, "t7"), started_at=scene.base)])
    assert c.fires("a")
    assert c.run_states(["a"])
    assert c.claims([scene.key(7)])
    assert c.beats()


def limits(scene: Scene) -> None:
    """One fire that has a gpu and a message in hand, one that waits for it, one that ran with it."""
    c: Any = scene.c
    gpu = Limit("group:gpu", 2)
    scene.commit(21, 22, 23, 24, mark=8)
    asked = [LimitRequest(hold=scene.hold(n), limits=(gpu, Limit(SLOTS, 2)), wait=60) for n in (21, 22, 23, 24)]
    assert [reply.grant for reply in c.request(asked)] == ["granted", "granted", "waiting", "waiting"]
    c.confirm([scene.hold(21)])
    c.reserve([Reservation(key=scene.key(21), attempt=1, worker="w1")])
    scene.start(22, "t22", silent_after=60)
    c.renew_leases([Lease(scene.key(22), "t22", Progress("halfway"))])
    assert c.free([scene.key(22)], "by hand")[0].named == (scene.key(23),)
    scene.start(23, "t23", silent_after=60)
    assert [(len(state.holders), len(state.waiting)) for state in c.limits()] == [(2, 1), (2, 1)]
    c.reap(holding=True)


def parcels(scene: Scene) -> None:
    """Three failures, told of, and what a database decided; one parcel is sent, one taken."""
    c: Any = scene.c
    scene.commit(31, 32, 33, mark=24, tells=("failure",))
    c.confirm([scene.hold(n) for n in (31, 32, 33)])
    for n in (31, 32, 33):
        scene.start(n, f"t{n}")
        scene.finish(n, f"t{n}", Status.ERROR, error="E: e")
    alert, first, *_ = sorted(c.parcels("b3", 10), key=lambda one: one.about)
    assert (alert.about, alert.failures, first.about) == (About.ALERT, 3, About.FAILURE)
    c.queue_parcels([replace(first, id="owed:missed", about=About.MISSED)])
    assert c.take_parcels("b3", [alert.id, first.id]) == [True, True]
    c.parcels_sent([first.id])
    report = CallbackReport(callback="c", status=DeliveryStatus.DELIVERED)
    given = {"parcel_id": first.id, "fire_id": first.fire_id, "key": first.key, "about": first.about}
    c.report([DeliveryReport(status=DeliveryStatus.DELIVERED, callbacks=(report,), **given)])
    c.release([Release(schedule_id="a", name="a", kind="task", expected_mark=scene.due(33), new_mark=scene.due(33))])


def test_scripts_survive_a_script_flush(redis_url: str, redis_client: Any) -> None:
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    scene.register()
    redis_client.script_flush()
    assert scene.commit(1).fires
    coordinator.close()


def test_a_call_that_finds_the_memory_gone_writes_nothing(redis_url: str, redis_client: Any) -> None:
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    redis_client.flushdb()
    with pytest.raises(MemoryLost):
        scene.commit(1)
    assert redis_client.keys("*") == []
    coordinator.close()


def test_each_script_is_one_text_with_one_name() -> None:
    assert script("commit") is script("commit")
    assert script("commit").sha != script("confirm").sha


def test_every_key_is_named_as_documented_and_none_stays_for_ever(redis_url: str, redis_client: Any) -> None:
    """The leak check after the test does the second half."""
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    live(scene)
    due = scene.key(3).moment
    prefix = "parrot:scheduler:main:"
    keys = set(redis_client.keys("*"))
    assert {key for key in keys if not key.startswith(prefix)} == set()
    fixed = {"coordinator", "pending", "leases", "beats", "seen", "state:a", "fires:a", "fires:stray"}
    fixed |= {"fires:row", "proofs", "carry", "uncarried", "silent", "sent"}
    fixed |= {"parcels", "parcels:queue", "parcels:taken"}
    fixed |= {f"limits:{name}" for name in ("line", "until", "sent", "reserved", "names", "capacities", "state")}
    fixed |= {f"limits:{what}:{name}" for what in ("holders", "waiting") for name in ("group:gpu", "slots")}
    names = {key.removeprefix(prefix) for key in keys}
    assert {name for name in names if not name.startswith(("fire:", "parcel:"))} == fixed
    (sent,) = (name for name in names if name.startswith("parcel:"))
    assert 0 < redis_client.ttl(f"{prefix}{sent}") <= 86400
    assert f"fire:a:{due}" in names
    assert redis_client.type(f"{prefix}fire:a:{due}") == "string"
    assert 0 < redis_client.ttl(f"{prefix}fire:a:{due}") <= 86400
    assert '"owner":"b1"' in redis_client.get(f"{prefix}fire:a:{due}")
    assert set(redis_client.hkeys(f"{prefix}beats")) == {"b2", "b3"}
    assert redis_client.hget(f"{prefix}state:a", "run_count") == "8"
    coordinator.close()


def test_a_stray_delivery_leaves_no_run_state(redis_url: str, redis_client: Any) -> None:
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    scene.start()
    scene.finish()
    assert redis_client.keys("*state:*") == []
    assert scene.record().status is Status.SUCCESS
    coordinator.close()


def test_a_claim_that_expires_in_the_outbox_still_gets_an_outcome(redis_url: str, redis_client: Any) -> None:
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    hold = scene.pending()
    redis_client.delete(f"parrot:scheduler:main:fire:{hold.key.text}")
    reply = scene.sweep("b2")
    assert [(fire.key, fire.owner, fire.status) for fire in reply.entries] == [(hold.key, "b1", Status.PENDING)]
    assert coordinator.drop([Drop(hold=hold, status=Status.MISSED, reason="too_late")]) == [True]
    redis_client.zadd("parrot:scheduler:main:pending", {"nonsense": 1, f"a:{scene.due(9).isoformat()}": 2})
    assert scene.sweep("b2").entries == ()
    assert redis_client.exists("parrot:scheduler:main:pending") == 0
    coordinator.close()


def test_hash_tag_keeps_all_keys_in_one_slot(redis_url: str, redis_client: Any) -> None:
    tagged, plain = connect(redis_url, Namespace("main", hash_tag=True)), connect(redis_url)
    live(scene_of(tagged))
    assert {key.partition("}")[0] for key in redis_client.keys("*")} == {"parrot:scheduler:{main"}
    assert plain.beats() == []
    tagged.close()
    plain.close()


def _user(server: PrivateRedis, *rules: str) -> str:
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "parrot", "reset", "on", ">secret", f"~{NAME.prefix}*", f"&{NAME.prefix}wake", *rules
        )
    return f"redis://parrot:secret@{server.host}:{server.port}/0"


def test_the_documented_rights_suffice(private_redis: PrivateRedis) -> None:
    coordinator = connect(_user(private_redis, "-@all", *(f"+{name}" for name in COMMANDS)))
    live(scene_of(coordinator))
    coordinator.close()
    with private_redis.client() as client:
        refused = {str(entry["object"]).partition("|")[0] for entry in client.acl_log()}
    assert refused <= {"client"}


def test_it_goes_on_without_the_right_to_ask_for_info(private_redis: PrivateRedis) -> None:
    coordinator = connect(_user(private_redis, "-@all", *(f"+{name}" for name in COMMANDS - {"info"})))
    live(scene_of(coordinator))
    coordinator.close()


@pytest.mark.parametrize("without", ["-publish", "resetchannels"])
def test_turns_are_handed_over_without_the_right_to_wake(private_redis: PrivateRedis, without: str) -> None:
    """A beat finds them with its next sweep."""
    coordinator = connect(_user(private_redis, "-@all", *(f"+{name}" for name in COMMANDS), without))
    scene = scene_of(coordinator)
    scene.register()
    scene.commit(1, 2)
    asked = [LimitRequest(hold=scene.hold(n), limits=(Limit("group:gpu"),)) for n in (1, 2)]
    assert [reply.grant for reply in coordinator.request(asked)] == ["granted", "waiting"]
    scene.start(1)
    assert scene.finish(1).named == (scene.key(2),)
    assert scene.hold(2) in scene.sweep("b2").due
    coordinator.close()


def test_another_name_is_out_of_reach(private_redis: PrivateRedis) -> None:
    url = _user(private_redis, "-@all", *(f"+{name}" for name in COMMANDS))
    coordinator = connect(url, Namespace("theirs"))
    with pytest.raises(Unreachable, match=r"(?i)permission|access") as caught:
        coordinator.attach()
    assert "secret" not in str(caught.value)
    coordinator.close()
