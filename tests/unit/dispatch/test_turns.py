"""Limits between commit and send: one question for a batch, and what becomes of those that get no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import pytest

from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.dispatch.limits import Bounds
from celery_parrot.dispatch.mirror import PAGE
from celery_parrot.dispatch.ticker import TickSettings
from celery_parrot.errors import ConfigurationError
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.schedule import Kind
from celery_parrot.model.state import Beat
from celery_parrot.protocols import Coordinator, Hold, Lease, SweepReply
from celery_parrot.stores.memory import CodeStore, Definition
from celery_parrot.testing import FakeClock, ManualBeat, RecordingEvents
from celery_parrot.triggers import build
from tests.simulation.rig import NAMESPACE, Died, Rig, Wire, broker, delivery_of, die, every, sent, told, wire_of


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _beat(
    rig: Rig,
    owner: str,
    *definitions: Definition,
    kinds: Mapping[str, Kind] | None = None,
    bounds: Bounds | None = None,
) -> ManualBeat:
    return ManualBeat(
        cast(Coordinator, Wire(rig.coordinator.client())),
        [CodeStore(definitions)],
        clock=rig.clock,
        namespace=NAMESPACE,
        owner=owner,
        kinds=kinds,
        bounds=bounds,
        settings=TickSettings(reap_interval=5.0),
    )


def _of_kind(kind: str, definition: Definition) -> Definition:
    return replace(definition, schedule=replace(definition.schedule, kind=kind))


def _in(store: str, definition: Definition) -> Definition:
    return replace(definition, schedule=replace(definition.schedule, store=store))


def _two_of_a_group(**policy: Any) -> Sequence[Definition]:
    return [every(60, name, exclusion_group="gpu", **policy) for name in ("f", "g")]


def _events(beat: ManualBeat, name: str) -> list[Event]:
    assert isinstance(beat.events, RecordingEvents)
    return beat.events.named(name)


def _run(rig: Rig, key: FireKey, token: str = "W1#1") -> None:
    """A worker starts it and ends it."""
    rig.start(delivery_of(key, token))
    rig.finish(delivery_of(key, token))


def _f_sent_and_g_in_line(rig: Rig, *others: ManualBeat, **policy: Any) -> tuple[ManualBeat, FireKey, FireKey]:
    beat = _beat(rig, "B1", *_two_of_a_group(**policy))
    beat.tick()
    rig.keep_touched(59.5, *others)
    rig.clock.advance(0.5)
    beat.tick()
    f, g = rig.key(60, "f"), rig.key(60, "g")
    assert sent(beat) == [f]
    assert rig.status(g) is Status.WAITING
    return beat, f, g


def test_nobody_is_asked_where_no_fire_needs_a_limit(rig: Rig) -> None:
    beat = _beat(rig, "B1", every(60))
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    assert sent(beat) == [rig.key(60)]
    assert "request" not in wire_of(beat).calls


def test_one_question_for_all_fires_of_a_tick(rig: Rig) -> None:
    """Those that need nothing are sent besides."""
    beat = _beat(rig, "B1", *_two_of_a_group(), every(60, "free"))
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    assert wire_of(beat).calls.count("request") == 1
    assert {key.schedule_id for key in sent(beat)} == {"f", "free"}


def test_who_waits_is_told_with_the_limit_and_the_fire_that_has_it(rig: Rig) -> None:
    beat, f, _ = _f_sent_and_g_in_line(rig)
    (event,) = _events(beat, events.FIRE_WAITING)
    assert event.fields["schedule"] == "g"
    assert event.fields["limit"] == "group:gpu"
    assert event.fields["held_by"] == NAMESPACE.fire_id(f)
    assert "waits for group gpu, held by" in event.text


def test_who_is_due_first_is_asked_for_first(rig: Rig) -> None:
    """Whatever the order in which the stores tell of them."""
    earlier = replace(every(60, "z", exclusion_group="gpu"), trigger=build("interval", {"seconds": 60, "offset": 55}))
    other = CodeStore([_in("redis", earlier)])
    other.name = "redis"
    stores = [CodeStore([every(60, "a", exclusion_group="gpu")]), other]
    beat = ManualBeat(rig.coordinator.client(), stores, clock=rig.clock, namespace=NAMESPACE)
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    assert sent(beat) == [rig.key(55, "z")]


def test_who_waits_is_in_the_mirror_of_the_line_and_not_in_that_of_the_outbox(rig: Rig) -> None:
    """Before the next sweep, too: memory may be lost in between."""
    beat, _, g = _f_sent_and_g_in_line(rig)
    outbox = beat.ticker._outbox
    (waiting,) = outbox.line
    assert waiting.fire.key == g
    assert waiting.until == rig.at(60 + 900)
    assert g not in {fire.key for fire in outbox.mirror}
    _run(rig, rig.key(60, "f"))
    beat.ticker.woken()
    beat.tick()
    assert outbox.line == ()


@pytest.mark.parametrize("another", [False, True])
def test_a_named_fire_is_sent_by_the_next_beat_that_looks(rig: Rig, another: bool) -> None:
    """A wake-up is enough: no time passes between the release and the send."""
    other = _beat(rig, "B2", *_two_of_a_group())
    other.tick()
    beat, f, g = _f_sent_and_g_in_line(rig, other)
    looking = other if another else beat
    looking.tick()
    _run(rig, f)
    before = rig.clock.now()
    looking.ticker.woken()
    looking.tick()
    assert sent(looking)[-1:] == [g]
    assert rig.clock.now() == before
    other.tick(), beat.tick()
    assert sent(beat, other).count(g) == 1


def test_a_woken_beat_does_not_look_at_all_who_wait(rig: Rig) -> None:
    """A line of thousands would make each turn take longer than the one before it."""
    names = [f"s{n:02}" for n in range(70)]
    beat = _beat(rig, "B1", *[every(60, name, exclusion_group="gpu") for name in names])
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    assert len(beat.ticker._outbox.line) == 69
    seen: list[int] = []
    sweep = wire_of(beat).client.sweep

    def watched(one: Beat, *, offset: int = 0, limit: int = 1000) -> SweepReply:
        seen.append(limit)
        return sweep(one, offset=offset, limit=limit)

    beat.run(0.5)
    with mock.patch.object(wire_of(beat).client, "sweep", watched):
        _run(rig, sent(beat)[0])
        beat.ticker.woken()
        assert beat.tick() > 0.0
    assert seen == [50]
    assert len(beat.sent) == 2
    assert len(beat.ticker._outbox.line) == 68


def test_who_stands_behind_a_thousand_others_is_remembered_too(rig: Rig) -> None:
    others = PAGE + 50
    beat = _beat(rig, "B1", *[every(60, f"s{n:04}", exclusion_group="gpu") for n in range(1 + others)])
    rig.clock.advance(60)
    beat.run(1.0)
    rig.clock.advance(59)
    beat.run(3.0)
    before = wire_of(beat).calls.count("sweep")
    beat.run(3.0)
    assert wire_of(beat).calls.count("sweep") in (before + 6, before + 8)  # two pages a second
    assert len(beat.ticker._outbox.line) == others
    rig.coordinator.flush()
    beat.run(1.0)
    look = Beat(owner="other", host="h", pid=1, version="1", started=rig.clock.now(), seen=rig.clock.now())
    assert len(rig.coordinator.client().sweep(look, limit=2 * PAGE).line) == others


def test_more_in_the_outbox_than_a_glance_shows_is_looked_at_whole_at_once(rig: Rig) -> None:
    beat = _beat(rig, "B1", *[every(60, f"s{n:02}", exclusion_group=f"g{n}") for n in range(70)])
    broker(beat, down="down")
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    beat.run(0.5)
    before = wire_of(beat).calls.count("sweep")
    beat.ticker.woken()
    assert beat.tick() == 0.0
    beat.tick()
    assert wire_of(beat).calls.count("sweep") == before + 2
    assert len(beat.ticker._outbox.mirror) == 70


def test_without_a_wake_up_it_is_found_within_a_second(rig: Rig) -> None:
    beat, f, g = _f_sent_and_g_in_line(rig)
    beat.run(2)
    _run(rig, f)
    beat.run(1.01)
    assert sent(beat) == [f, g]


def test_a_fire_named_while_the_broker_is_down_is_sent_when_it_is_back(rig: Rig) -> None:
    """Its turn stays its own meanwhile."""
    beat, f, g = _f_sent_and_g_in_line(rig, misfire_grace=None)
    broker(beat, down="down")
    _run(rig, f)
    beat.run(30)
    assert sent(beat) == [f]
    broker(beat)
    beat.run(6)
    assert sent(beat)[:2] == [f, g]
    assert sent(beat).count(g) == 1


def test_a_beat_that_dies_before_it_asked_leaves_the_asking_to_another(rig: Rig) -> None:
    first, second = _beat(rig, "B1", *_two_of_a_group()), _beat(rig, "B2", *_two_of_a_group())
    first.tick(), second.tick()
    rig.keep_touched(60)
    wire_of(first).after("commit", die)
    with pytest.raises(Died):
        first.tick()
    second.run(4)
    assert sent(second) == [rig.key(60, "f")]
    assert rig.status(rig.key(60, "g")) is Status.WAITING


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_lost_answer_loses_nothing_and_grants_nothing_twice(rig: Rig, carried_out: bool) -> None:
    beat = _beat(rig, "B1", *_two_of_a_group())
    beat.tick()
    rig.keep_touched(60)
    (wire_of(beat).lose_reply if carried_out else wire_of(beat).refuse)("request")
    beat.run(5)
    f, g = rig.key(60, "f"), rig.key(60, "g")
    assert sent(beat) == [f]
    _run(rig, f)
    beat.run(1.5)
    assert sent(beat) == [f, g]


def test_a_busy_kind_skips_as_a_success(rig: Rig) -> None:
    kinds = {"agent": Kind(name="agent", task="t.agent", max_in_flight=1)}
    beat = _beat(rig, "B1", *[_of_kind("agent", every(60, name)) for name in ("f", "g")], kinds=kinds)
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    assert sent(beat) == [rig.key(60, "f")]
    assert rig.record(rig.key(60, "g")).status is Status.SUCCESS
    (event,) = _events(beat, events.FIRE_SKIPPED)
    assert (event.fields["reason"], event.fields["limit"]) == ("in flight", "kind:agent")
    assert beat.ticker._outbox.mirror == ()


def test_a_schedule_that_may_not_overlap_skips_while_its_last_fire_runs(rig: Rig) -> None:
    beat = _beat(rig, "B1", every(60, overlap="skip"))
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    rig.start(delivery_of(rig.key(60), "W1#1"))
    for _ in range(6):
        rig.clock.advance(10)
        beat.tick()
        assert rig.coordinator.renew_leases([Lease(rig.key(60), "W1#1")]) == [True]
    assert sent(beat) == [rig.key(60)]
    record = rig.record(rig.key(120))
    assert (record.status, record.reason) == (Status.SKIPPED, "overlap")
    rig.finish(delivery_of(rig.key(60), "W1#1"))
    rig.clock.advance(60)
    beat.tick()
    assert sent(beat) == [rig.key(60), rig.key(180)]


def test_an_edit_of_the_policy_applies_to_what_waits(rig: Rig) -> None:
    """It is read when the fire is processed: named, it is sent with the arguments of now."""
    beat, f, g = _f_sent_and_g_in_line(rig)
    store: Any = beat.ticker._stores._stores[0]
    store.put(every(60, "g", args=["new"], overlap="skip"))
    _run(rig, f)
    beat.run(2)
    assert sent(beat) == [f, g]
    assert beat.sent[-1].args == ("new",)


@pytest.mark.parametrize("change", ["paused", "deleted"])
def test_who_comes_back_and_is_no_longer_wanted_is_skipped_and_the_next_goes_on(rig: Rig, change: str) -> None:
    """At once: the turn of the one behind has come by this very tick."""
    definitions = [_in("redis", every(60, name, exclusion_group="gpu")) for name in ("f", "g", "h")]
    store = CodeStore(definitions)
    store.name = "redis"  # one whose definitions all beats share: what it has not, is gone
    client = rig.coordinator.client()
    beat = ManualBeat(client, [store], clock=rig.clock, namespace=NAMESPACE, owner="B1")
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    f, g, h = (rig.key(60, name) for name in ("f", "g", "h"))
    assert sent(beat) == [f]
    beat.run(1.1)
    if change == "paused":
        rig.coordinator.hold(["g"], "person", "")
        store.learn(rig.coordinator.register([r for r in store.remembered()[0] if r.schedule_id == "g"]))
    else:
        store.remove("g")
    _run(rig, f)
    beat.ticker.woken()
    beat.tick()
    assert beat.tick() is not None
    assert rig.record(g).status is Status.SKIPPED
    assert rig.record(g).reason == change
    assert sent(beat) == [f, h]


def test_the_wait_for_a_turn_is_no_lateness(rig: Rig) -> None:
    """Grace counts until the commit; what bounds the wait is the wait deadline."""
    beat, f, g = _f_sent_and_g_in_line(rig, misfire_grace=30.0)
    rig.start(delivery_of(f, "W1#1"))
    for _ in range(20):
        beat.run(5)
        rig.coordinator.renew_leases([Lease(f, "W1#1")])
    rig.finish(delivery_of(f, "W1#1"))
    beat.run(1.1)
    assert g in sent(beat)


def test_without_limits_grace_is_what_it_was(rig: Rig) -> None:
    beat = _beat(rig, "B1", every(60, misfire_grace=30.0))
    broker(beat, down="down")
    beat.tick()
    rig.clock.advance(60)
    beat.run(40)
    assert rig.record(rig.key(60)).status is Status.MISSED


class _NoLimits:
    """A coordinator of somebody's own without the capability."""

    def __init__(self, real: MemoryCoordinator) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name in ("request", "limits", "free", "reserve"):
            raise AttributeError(name)
        return getattr(self._real, name)


def test_a_limit_that_nobody_keeps_is_never_ignored(rig: Rig) -> None:
    """Said for that fire; all others are sent."""
    client = cast(Coordinator, _NoLimits(rig.coordinator.client()))
    store = CodeStore([every(60, "f", exclusion_group="gpu"), every(60, "free")])
    beat = ManualBeat(client, [store], clock=rig.clock, namespace=NAMESPACE)
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    assert sent(beat) == [rig.key(60, "free")]
    assert rig.record(rig.key(60, "f")).status is Status.ERROR
    (text,) = told(beat, events.FIRE_FAILED)
    assert "it needs limits, and _NoLimits keeps none" in text


# --- deadlines --------------------------------------------------------------------------------------------------------


def test_the_deadline_is_told_to_the_worker_and_to_the_coordinator(rig: Rig) -> None:
    """The same instant, by the coordinator's clock whatever this machine's says."""
    told_to: list[Any] = []
    clock = FakeClock(source=rig.clock, offset=-7200.0)
    client = rig.coordinator.client()
    real = client.confirm

    def confirm(holds: Sequence[Hold], deadlines: Any = None) -> Sequence[bool]:
        told_to.extend(deadlines)
        return real(holds, deadlines)

    with mock.patch.object(client, "confirm", confirm):
        store = CodeStore([every(60, "f", exclusion_group="gpu"), every(60, "free")])
        beat = ManualBeat(client, [store], clock=clock, namespace=NAMESPACE)
        beat.tick()
        rig.clock.advance(60)
        beat.tick()
    headers = {message.headers["parrot"]["name"]: message.headers["parrot"]["deadline"] for message in beat.sent}
    assert headers == {"f": rig.at(60 + 900).isoformat(), "free": None}
    assert sorted(told_to, key=str) == [rig.at(60 + 900), None]


def test_a_confirm_that_is_repeated_carries_the_same_deadline(rig: Rig) -> None:
    """Its answer was lost, or it was never carried out."""
    beat = _beat(rig, "B1", every(60, "f", exclusion_group="gpu"))
    beat.tick()
    rig.clock.advance(60)
    wire_of(beat).refuse("confirm")
    beat.tick()
    beat.run(3)
    assert len(beat.sent) == 1
    assert rig.status(rig.key(60, "f")) is Status.SENT
    (claim,) = rig.coordinator.claims([rig.key(60, "f")])
    assert claim is not None
    assert claim.deadline == rig.at(60 + 900)


def test_the_mirror_knows_what_recovers(rig: Rig) -> None:
    beat = _beat(rig, "B1", every(60, recover=True), every(60, "t"))
    broker(beat, down="down")
    beat.tick()
    rig.clock.advance(60)
    beat.tick()
    assert {fire.name: fire.recover for fire in beat.ticker._outbox.mirror} == {"s": True, "t": False}


def test_a_kind_with_a_limit_that_nobody_keeps_stops_the_start(rig: Rig) -> None:
    client = cast(Coordinator, _NoLimits(rig.coordinator.client()))
    kinds = {"agent": Kind(name="agent", task="t", max_in_flight=1)}
    with pytest.raises(ConfigurationError, match="_NoLimits keeps none"):
        ManualBeat(client, [CodeStore()], clock=rig.clock, kinds=kinds)
    with pytest.raises(ConfigurationError, match="parrot_max_concurrent = 3"):
        ManualBeat(client, [CodeStore()], clock=rig.clock, bounds=Bounds(max_concurrent=3))


def test_a_fire_that_stood_in_line_is_not_said_to_be_late(rig: Rig) -> None:
    beat, f, g = _f_sent_and_g_in_line(rig)
    rig.start(delivery_of(f, "W1#1"))
    for _ in range(20):
        beat.run(5)
        rig.coordinator.renew_leases([Lease(f, "W1#1")])
    rig.finish(delivery_of(f, "W1#1"))
    beat.run(1.1)
    assert g in sent(beat)
    assert told(beat, events.FIRE_LATE) == []
