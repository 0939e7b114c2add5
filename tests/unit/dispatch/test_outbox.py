"""Committed fires on their way to the broker: send, confirm, retry, takeover, and what ends without being sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from celery_parrot.dispatch.routing import Router
from celery_parrot.model import events
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.schedule import Kind, Missed
from celery_parrot.protocols import Message, SendResult, SendStatus
from celery_parrot.stores.memory import Definition
from celery_parrot.testing import ManualBeat
from tests.simulation.rig import NAMESPACE, Died, Rig, broker, die, every, key_of, sent, told, wire_of


class ScriptedSender:
    """Answers as told, message by message; what it was asked to send is :attr:`asked`, in batches."""

    def __init__(self) -> None:
        self.asked: list[list[FireKey]] = []
        self.answers: Callable[[FireKey], SendStatus] = lambda key: SendStatus.SENT
        self.delivered: list[FireKey] = []
        self.before: Callable[[], object] = lambda: None
        self.until: list[float] = []

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        self.asked.append([key_of(message) for message in messages])
        self.until.append(until)
        results: list[SendResult] = []
        for message in messages:
            self.before()
            if results and results[-1].status in (SendStatus.FAILED, SendStatus.NOT_TRIED):
                results.append(SendResult(SendStatus.NOT_TRIED))
                continue
            status = self.answers(key_of(message))
            results.append(SendResult(status, "as told"))
            if status is SendStatus.SENT:
                self.delivered.append(key_of(message))
        return results

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def sender() -> ScriptedSender:
    return ScriptedSender()


def _beat(rig: Rig, sender: ScriptedSender, *definitions: Definition, owner: str = "B1") -> ManualBeat:
    """Registered, with every schedule due right now."""
    beat = rig.beat(owner, *definitions)
    beat.ticker._outbox._sender = sender
    beat.tick()
    return beat


def _three_due(rig: Rig, sender: ScriptedSender) -> ManualBeat:
    beat = _beat(rig, sender, *(every(60, name) for name in "abc"))
    rig.keep_touched(60)
    return beat


def _status(rig: Rig, name: str) -> Status:
    return rig.status(rig.key(60, name))


# --- sending ----------------------------------------------------------------------------------------------------------


def test_fires_are_sent_in_one_batch_and_confirmed_in_one(rig: Rig, sender: ScriptedSender) -> None:
    """One round trip each, however many."""
    beat = _three_due(rig, sender)
    beat.tick()
    assert [len(batch) for batch in sender.asked] == [3]
    assert wire_of(beat).calls.count("confirm") == 1
    assert {_status(rig, name) for name in "abc"} == {Status.SENT}
    assert len(told(beat, events.FIRE_SENT)) == 3


def test_nothing_is_begun_once_the_claim_is_no_longer_young(rig: Rig, sender: ScriptedSender) -> None:
    """The sender is told until when: three tenths of a heartbeat after the claim, by the monotonic clock."""
    beat = _three_due(rig, sender)
    wire_of(beat).before("commit", lambda: rig.clock.advance(0.5))
    asked = beat.clock.monotonic()
    beat.tick()
    assert sender.until == [pytest.approx(asked + 0.9)]


def test_what_there_was_no_time_for_is_renewed_and_sent(rig: Rig, sender: ScriptedSender) -> None:
    """A slow broker: each message takes a second. All go out, each while its claim is young."""

    def slowly(key: FireKey) -> SendStatus:
        if beat.clock.monotonic() > sender.until[-1]:
            return SendStatus.NOT_TRIED
        rig.clock.advance(1.0)
        return SendStatus.SENT

    beat = _three_due(rig, sender)
    sender.answers = slowly
    beat.tick()
    assert sorted(sender.delivered) == [rig.key(60, name) for name in "abc"]
    assert "renew" in wire_of(beat).calls


def test_a_long_send_is_not_taken_for_a_dead_beat(rig: Rig, sender: ScriptedSender) -> None:
    """Six seconds within one tick, without a sweep: renewing tells the others that the sender lives."""

    def slowly(key: FireKey) -> SendStatus:
        if beat.clock.monotonic() > sender.until[-1]:
            return SendStatus.NOT_TRIED
        rig.keep_touched(1.0, other)
        return SendStatus.SENT

    definitions = [every(60, name) for name in "abcdef"]
    beat, other = _beat(rig, sender, *definitions), rig.beat("B2", *definitions)
    other.tick()
    rig.keep_touched(60)
    sender.answers = slowly
    beat.tick()
    assert len(sender.delivered) == 6
    assert sent(other) == []


def test_a_claim_that_was_taken_meanwhile_is_not_sent(rig: Rig, sender: ScriptedSender) -> None:
    """Renewing says so."""
    beat = _three_due(rig, sender)
    other = rig.beat("B2", *(every(60, name) for name in "abc"))
    wire_of(beat).after("commit", lambda: rig.keep_touched(5, other))
    beat.tick()
    assert sender.asked == []
    assert sorted(sent(other)) == [rig.key(60, name) for name in "abc"]


# --- the broker -------------------------------------------------------------------------------------------------------


def test_a_failed_publish_stays_in_the_outbox_and_is_sent_again(rig: Rig, sender: ScriptedSender) -> None:
    """While the broker is down one fire at a time is a probe, at most one a second; then all go out."""
    beat = _three_due(rig, sender)
    sender.answers = lambda key: SendStatus.FAILED
    beat.run(30)
    first, *probes = sender.asked
    assert len(first) == 3
    assert {len(probe) for probe in probes} == {1}
    assert 5 <= len(probes) <= 30
    assert beat.ticker.health().status == "broker_unavailable"
    sender.answers = lambda key: SendStatus.SENT
    beat.run(8)
    assert sorted(sender.delivered) == [rig.key(60, name) for name in "abc"]
    assert beat.ticker.health().status == "ok"


def test_an_outage_of_the_broker_is_said_once_and_its_end(rig: Rig, sender: ScriptedSender) -> None:
    """Not with each try."""
    beat = _three_due(rig, sender)
    sender.answers = lambda key: SendStatus.FAILED
    beat.run(20)
    sender.answers = lambda key: SendStatus.SENT
    beat.run(8)
    said = told(beat, events.SEND_FAILED)
    assert [text.split(",")[0] for text in said] == ["broker out of reach", "broker is back"]


def test_what_was_sent_before_the_failure_is_confirmed(rig: Rig, sender: ScriptedSender) -> None:
    """The second of three fails: the first is sent, the others wait."""
    beat = _three_due(rig, sender)
    sender.answers = lambda key: SendStatus.FAILED if key.schedule_id == "b" else SendStatus.SENT
    beat.tick()
    assert [_status(rig, name) for name in "abc"] == [Status.SENT, Status.PENDING, Status.PENDING]


def test_a_fire_too_late_for_its_policy_is_missed_at_last(rig: Rig, sender: ScriptedSender) -> None:
    """The broker is down for longer than the grace: recorded, not sent when it is back."""
    beat = _beat(rig, sender, every(600, misfire_grace=20))
    rig.keep_touched(600)
    sender.answers = lambda key: SendStatus.FAILED
    beat.run(30)
    record = rig.record(rig.key(600))
    assert (record.status, record.reason) == (Status.MISSED, "too_late")
    sender.answers = lambda key: SendStatus.SENT
    beat.run(5)
    assert sender.delivered == []


def test_the_grace_of_the_outbox_is_inclusive(rig: Rig, sender: ScriptedSender) -> None:
    """Exactly at its grace a fire is still sent."""
    beat = _beat(rig, sender, every(600, misfire_grace=20))
    rig.keep_touched(600)
    sender.answers = lambda key: SendStatus.FAILED
    beat.tick()
    rig.keep_touched(20)
    sender.answers = lambda key: SendStatus.SENT
    beat.ticker.woken()
    beat.tick()
    assert sender.delivered == [rig.key(600)]


# --- messages that can never be sent ----------------------------------------------------------------------------------


def test_a_message_that_cannot_be_sent_ends_as_an_error(rig: Rig, sender: ScriptedSender) -> None:
    """It is not tried again and holds up nobody."""
    beat = _three_due(rig, sender)
    sender.answers = lambda key: SendStatus.BROKEN if key.schedule_id == "b" else SendStatus.SENT
    beat.run(10)
    assert [_status(rig, name) for name in "abc"] == [Status.SENT, Status.ERROR, Status.SENT]
    assert rig.record(rig.key(60, "b")).reason == "cannot be sent: as told"
    assert len(sender.asked) == 1
    assert len(told(beat, events.FIRE_FAILED)) == 1


def test_a_lazy_argument_that_raises_ends_its_fire_only(rig: Rig, sender: ScriptedSender) -> None:
    """The user's code failed; others are sent in the same tick."""

    def evaluate(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        if args == ("bad",):
            raise LookupError("no such customer")
        return args, kwargs

    beat = _beat(rig, sender, every(60, "a", args=["bad"]), every(60, "b"))
    beat.ticker._outbox._writer._router = Router(NAMESPACE, {}, evaluate)
    rig.keep_touched(60)
    beat.tick()
    assert sender.delivered == [rig.key(60, "b")]
    record = rig.record(rig.key(60, "a"))
    assert (record.status, record.reason) == (Status.ERROR, "cannot be sent: LookupError: no such customer")


def _lazy_beat(
    rig: Rig, sender: ScriptedSender, seconds: float, *names: str, others: Sequence[ManualBeat] = ()
) -> ManualBeat:
    """A beat of one schedule a name; where that begins with ``slow``, its argument takes ``seconds`` to compute."""

    def evaluate(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        if str(args[0]).startswith("slow"):
            evaluated.append(str(args[0]))
            rig.keep_touched(seconds, *others)
        return args, kwargs

    def in_time(key: FireKey) -> SendStatus:
        return SendStatus.SENT if beat.clock.monotonic() < sender.until[-1] else SendStatus.NOT_TRIED

    evaluated: list[str] = []
    sender.answers = in_time
    beat = _beat(rig, sender, *(every(60, name, args=[name]) for name in names))
    beat.ticker._outbox._writer._router = Router(NAMESPACE, {}, evaluate)
    setattr(beat, "evaluated", evaluated)  # noqa: B010
    return beat


def test_a_lazy_argument_may_take_longer_than_a_claim_stays_young(rig: Rig, sender: ScriptedSender) -> None:
    """Two seconds: its claim is renewed and it is sent, having been computed once. The tick ends."""
    beat = _lazy_beat(rig, sender, 2.0, "slow")
    rig.keep_touched(60)
    beat.tick()
    assert sender.delivered == [rig.key(60, "slow")]
    assert getattr(beat, "evaluated") == ["slow"]  # noqa: B009


def test_many_lazy_arguments_that_together_take_long_are_all_sent(rig: Rig, sender: ScriptedSender) -> None:
    """Each is quick enough, all of them are not: they go out as they are computed."""
    names = [f"slow-{n}" for n in range(10)]
    beat = _lazy_beat(rig, sender, 0.5, *names)
    rig.keep_touched(60)
    beat.tick()
    assert sorted(key.schedule_id for key in sender.delivered) == names
    assert sorted(getattr(beat, "evaluated")) == names  # noqa: B009


def test_a_schedule_with_slow_arguments_waits_for_all_others(rig: Rig, sender: ScriptedSender) -> None:
    """Known from its last fire: the others are with the broker before its arguments are computed."""
    beat = _lazy_beat(rig, sender, 2.0, "a-slow", "slow", "z")
    rig.keep_touched(60)
    beat.tick()
    rig.keep_touched(58)
    sender.asked.clear()
    beat.tick()
    assert [[key.schedule_id for key in batch] for batch in sender.asked] == [["a-slow", "z"], ["slow"]]


def test_slow_arguments_are_not_computed_again_when_a_fire_comes_back(rig: Rig, sender: ScriptedSender) -> None:
    """They took longer than a heartbeat: another beat took the fire, could not send it, and lost it in turn."""
    other = rig.beat("B2", every(60, "slow", args=["slow"]))
    broker(other, down="not reachable from here")
    other.tick()
    beat = _lazy_beat(rig, sender, 5.0, "slow", others=[other])
    rig.keep_touched(60)
    beat.tick()
    assert sender.delivered == []
    beat.run(8)
    assert sender.delivered == [rig.key(60, "slow")]
    assert getattr(beat, "evaluated") == ["slow"]  # noqa: B009


# --- takeover ---------------------------------------------------------------------------------------------------------


def _left_behind(rig: Rig, *definitions: Definition) -> None:
    """A beat commits what is due and dies."""
    first = rig.beat("dead", *definitions)
    first.tick()
    rig.keep_touched(60)
    wire_of(first).after("commit", die)
    with pytest.raises(Died):
        first.tick()


def test_a_paused_schedule_is_skipped_at_takeover(rig: Rig) -> None:
    """Under its current definition, not the one it was committed under."""
    _left_behind(rig, every(60))
    with rig.coordinator.server.space(NAMESPACE, rig.coordinator.timing) as space:
        state = space.states["s"]
        state.run = type(state.run)(last_due=state.run.last_due, disabled_by="person")
    beat = rig.beat("B2", every(60))
    beat.run(5)
    record = rig.record(rig.key(60))
    assert (record.status, record.reason) == (Status.SKIPPED, "paused")
    assert sent(beat) == []
    assert len(told(beat, events.FIRE_SKIPPED)) == 1


def test_takeover_sends_with_the_current_arguments(rig: Rig) -> None:
    """Identity stays, arguments are today's."""
    _left_behind(rig, every(60, args=["old"]))
    beat = rig.beat("B2", every(60, args=["new"]))
    beat.run(5)
    assert [(key_of(message), message.args) for message in beat.sent] == [(rig.key(60), ("new",))]


def test_a_kind_not_routed_here_is_left_to_others(rig: Rig) -> None:
    """A beat that knows the schedule but not its kind does not touch the entry."""
    _left_behind(rig, every(60))
    beat = rig.beat("B2", every(60))
    beat.ticker._outbox._router._kinds = {"agent": Kind(name="agent", task="t")}
    beat.run(6)
    assert rig.status(rig.key(60)) is Status.PENDING
    assert sent(beat) == []


def test_what_left_in_good_order_is_sent_at_once(rig: Rig, sender: ScriptedSender) -> None:
    """Closing passes the outbox on: nobody waits for a heartbeat to lapse."""
    sender.answers = lambda key: SendStatus.FAILED
    first = _three_due(rig, sender)
    first.tick()
    first.close()
    second = rig.beat("B2", *(every(60, name) for name in "abc"))
    second.tick()
    assert sorted(sent(second)) == [rig.key(60, name) for name in "abc"]


def test_a_backlog_of_a_dead_beat_keeps_its_policy(rig: Rig) -> None:
    """Committed is committed: a takeover sends each fire of a caught-up backlog, in order, and misses none of them."""
    definition = every(5, missed=Missed.CATCH_UP)
    _left_behind(rig, definition)
    beat = rig.beat("B2", definition)
    beat.run(4)
    assert sent(beat) == [rig.key(5 * n) for n in range(1, 13)]
    assert told(beat, events.FIRE_MISSED) == []


# --- lost replies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("call", ["commit", "confirm", "take", "sweep", "renew", "drop"])
def test_a_lost_reply_of_any_call_neither_loses_nor_doubles(rig: Rig, call: str, carried_out: bool) -> None:
    """Carried out or not, the beat finds its way: each due time is sent once, with no more messages than that."""
    beat = rig.beat("B1", every(5), every(7, "late", misfire_grace=0.5))
    beat.tick()
    broker(beat, down="not yet")
    beat.run(8)
    (wire_of(beat).lose_reply if carried_out else wire_of(beat).refuse)(call)
    broker(beat)
    beat.run(20)
    due = [rig.key(5 * n) for n in range(1, 6)]
    assert [key for key in sorted(sent(beat)) if key.schedule_id == "s"] == due
    assert {record.status for record in rig.coordinator.fires("s")} == {Status.SENT}
