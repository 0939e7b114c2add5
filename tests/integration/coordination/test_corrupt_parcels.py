"""Rubbish in the queue of parcels: no outcome waits for it, and all other parcels are told of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.protocols import About, CallbackReport, DeliveryReport, DeliveryStatus, FinishVerdict, StartVerdict
from celery_parrot.testing.conformance.telling import TellingScene
from tests.integration.coordination.helpers import NoBackend, connect

pytestmark = pytest.mark.keeps_keys("rubbish has no TTL, and nothing deletes it")


def key(suffix: str) -> str:
    return f"parrot:scheduler:main:{suffix}"


@pytest.fixture
def scene(redis_url: str) -> Iterator[TellingScene]:
    coordinator = connect(redis_url)
    yield TellingScene(coordinator, NoBackend())
    coordinator.close()


@pytest.fixture
def faults(scene: TellingScene) -> list[str]:
    found: list[str] = []
    coordinator: Any = scene.c
    coordinator.report_to(lambda sentence, fields: found.append(sentence))
    return found


def spoil(client: Any, suffix: str) -> None:
    client.delete(key(suffix))
    client.set(key(suffix), "x")


@pytest.mark.parametrize("name", ["parcels", "parcels:queue", "parcels:taken"])
def test_a_key_of_another_type_ends_no_fire(
    scene: TellingScene, faults: list[str], redis_client: Any, name: str
) -> None:
    """Outcomes are recorded and failures counted; it is told, once, and once it was moved aside all goes on."""
    spoil(redis_client, name)
    scene.failed(1, 2, 3)
    assert (scene.held().by, scene.record(3).status) == ("failures", Status.ERROR)
    assert scene.queue() == []
    assert list(scene.parcels.take_parcels("b1", [f"{scene.record(3).fire_id}:alert"])) == [False] or name.endswith(
        "queue"
    )
    assert len(faults) == 1
    assert faults[0].startswith(f"{key(name)}: holds a value of another type. Fires run, but nobody is told of them")
    redis_client.delete(key(name))
    scene.resume()
    scene.failed(4)
    expected = [(n, About.FAILURE) for n in (1, 2, 3, 4)] + [(3, About.ALERT)]
    assert sorted(scene.queued()) == sorted(expected if name != "parcels" else expected[3:4])


RUBBISH = {
    "no JSON": "\xff {",
    "no object": "[]",
    "no due time": {"due_at": None},
    "no moment": {"failing_since": "yesterday"},
    "another": {"id": "another"},
    "no status": {"status": "monkey"},
    "no number": {"count": "many", "about": "monkey"},
}


@pytest.mark.parametrize("what", RUBBISH)
def test_a_parcel_that_cannot_be_read(scene: TellingScene, faults: list[str], redis_client: Any, what: str) -> None:
    """It stays where it is and is told by its id; a page is as full as without it."""
    scene.ended(1)
    (bad,) = (one.id for one in scene.queue())
    change: Any = RUBBISH[what]
    raw = redis_client.hget(key("parcels"), bad)
    spoilt = change if isinstance(change, str) else json.dumps(json.loads(raw) | change)
    redis_client.hset(key("parcels"), bad, spoilt)
    for n in range(2, 7):
        scene.ended(n)
    page = scene.parcels.parcels("b1", 3)
    assert [one.due_at for one in page] == [scene.due(n) for n in (2, 3, 4)]
    assert [one.due_at for one in scene.parcels.parcels("b1", 3, page[-1].id)] == [scene.due(5), scene.due(6)]
    assert len(faults) == 1
    assert f"{key('parcels')} {bad}: " in faults[0]
    assert "HDEL" in faults[0]
    assert redis_client.hget(key("parcels"), bad) == spoilt
    redis_client.hdel(key("parcels"), bad)
    assert len(scene.queue()) == 5
    assert redis_client.zcard(key("parcels:queue")) == 5


def test_a_queue_that_is_gone_is_made_anew(scene: TellingScene, redis_client: Any) -> None:
    """With a part of it or none left."""
    for n in (1, 2, 3):
        scene.ended(n)
    redis_client.zremrangebyrank(key("parcels:queue"), 0, 0)
    assert sorted(scene.queued()) == [(n, About.SUCCESS) for n in (1, 2, 3)]
    redis_client.delete(key("parcels:queue"))
    assert sorted(scene.queued()) == [(n, About.SUCCESS) for n in (1, 2, 3)]


def test_rubbish_about_who_has_it(scene: TellingScene, faults: list[str], redis_client: Any) -> None:
    scene.ended(1)
    scene.ended(2)
    first, second = scene.queue()
    redis_client.hset(key("parcels:taken"), first.id, "rubbish")
    assert scene.queue() == [second]
    assert list(scene.parcels.take_parcels("b1", [first.id, second.id])) == [False, True]
    assert len(faults) == 1
    assert f"{key('parcels:taken')} {first.id}: holds no beat" in faults[0]


@pytest.mark.parametrize(
    ("field", "counted"), [("failing_since", 3), ("consecutive_failures", 0)], ids=["since", "count"]
)
def test_rubbish_about_failures(
    scene: TellingScene, faults: list[str], redis_client: Any, field: str, counted: int
) -> None:
    """Without the instant they count and disable; without the count nothing does. Parcels can be read."""
    scene.failed(1)
    redis_client.hset(key("state:a"), field, "rubbish")
    scene.failed(2, 3)
    assert [one.failures for one in scene.queue() if one.due_at == scene.due(3)] == [counted] * (2 if counted else 1)
    assert scene.held().by == ("failures" if counted else None)
    if counted:
        assert scene.held().note == "3 failures in a row, last: ValueError: 3"
    assert redis_client.hget(key("state:a"), field) == "rubbish"
    assert [sentence for sentence in faults if f"state:a {field}: " not in sentence] == []
    assert len(faults) == 1


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda client, scene: client.hset(key("state:a"), "last_delivery_due", "rubbish"),
        lambda client, scene: client.hset(key("fires:a"), scene.key(1).moment, "rubbish"),
        lambda client, scene: client.hset(key("fires:a"), scene.key(1).moment, '{"delivery": 7}'),
    ],
    ids=["due", "entry", "notes"],
)
def test_reports_beside_rubbish(
    scene: TellingScene, redis_client: Any, spoiled: Callable[[Any, TellingScene], object]
) -> None:
    """The run state tells of them all the same."""
    scene.ended(1)
    record = scene.record(1)
    report = DeliveryReport(
        parcel_id=f"{record.fire_id}:success",
        fire_id=record.fire_id,
        key=record.key,
        about=About.SUCCESS,
        status=DeliveryStatus.DELIVERED,
        callbacks=(CallbackReport(callback="c", status=DeliveryStatus.DELIVERED),),
    )
    spoiled(redis_client, scene)
    scene.parcels.report([report])
    assert scene.state().last_delivery_status == "delivered"


def test_a_report_about_a_run_state_of_another_type(scene: TellingScene, faults: list[str], redis_client: Any) -> None:
    """It is told, and that of another schedule is not held up."""
    scene.ended(1)
    scene.register("b")
    spoil(redis_client, "state:b")
    of_a = scene.record(1)
    reports = [
        DeliveryReport(
            parcel_id="p", fire_id="f", key=made, about=About.SUCCESS, status=DeliveryStatus.DELIVERED, callbacks=()
        )
        for made in (scene.key(1, schedule_id="b"), of_a.key)
    ]
    scene.parcels.report(reports)
    assert scene.state().last_delivery_status == "delivered"
    assert len(faults) == 1


def test_a_claim_whose_list_is_none(scene: TellingScene, redis_client: Any) -> None:
    """A claim that another release wrote tells nobody, and ends as any other."""
    scene.register()
    scene.commit(1, tells=("success",))
    scene.confirm(scene.hold(1))
    claim = key(f"fire:{scene.key(1).text}")
    redis_client.set(claim, redis_client.get(claim).replace('["success"]', '"success"'), keepttl=True)
    assert scene.start(1, "t1").verdict is StartVerdict.RUN
    assert scene.finish(1, "t1").verdict is FinishVerdict.RECORDED
    assert scene.queue() == []


def test_a_queue_that_nobody_empties(scene: TellingScene, redis_client: Any) -> None:
    """Beyond 10,000 the history says that somebody was not told; alerts and what rows owe are kept all the same."""
    redis_client.hset(key("parcels"), mapping={str(n): "{}" for n in range(9_999)})
    scene.ended(1)
    scene.failed(2)
    assert scene.record(1).delivery == {}
    note = scene.record(2).delivery["failure"]
    assert (note["status"], note["tries"]) == ("failed", 0)
    assert [one["error"] for one in note["callbacks"]] == ["10000 others wait to be sent already"]
    scene.failed(3, 4)
    scene.parcels.queue_parcels([scene.parcel(20)])
    kept = [id_.partition(":")[2] for id_ in redis_client.hkeys(key("parcels")) if ":" in id_]
    assert sorted(kept) == ["alert", "missed", "success"]


def test_many_that_were_deleted_by_hand(scene: TellingScene, redis_client: Any) -> None:
    """None behind them is passed over, however they lie in the queue."""
    scene.parcels.queue_parcels([scene.parcel(n) for n in range(1, 261)])
    ids = [one.id for one in scene.parcels.parcels("b1", 1000)]
    redis_client.hdel(key("parcels"), *ids[:100], *ids[150:170])
    assert [one.id for one in scene.parcels.parcels("b1", 1000)] == ids[100:150] + ids[170:]
    assert redis_client.zcard(key("parcels:queue")) == 140
