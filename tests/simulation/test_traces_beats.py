"""Interleavings of beats that break a naive version, step by step; each also shown to go wrong without its rule.

The numbers are those of the list of traces that the protocol was designed against.
"""

from __future__ import annotations

import itertools
from datetime import timedelta
from unittest import mock

import pytest

from celery_parrot.coordination.rules import outbox
from celery_parrot.dispatch import outbox as dispatch_outbox
from celery_parrot.dispatch.outbox import Outbox
from celery_parrot.model import events
from celery_parrot.model.fire import Status
from celery_parrot.protocols import StartVerdict
from celery_parrot.testing import ManualBeat
from tests.simulation.bugs import BUGS
from tests.simulation.rig import NAMESPACE, Died, Rig, broker, delivery_of, die, every, sent, told, wire_of


@pytest.fixture
def rig() -> Rig:
    return Rig()


# --- 1: a beat dies between commit and send ---------------------------------------------------------------------------


def _dies_before_sending(rig: Rig) -> tuple[ManualBeat, ManualBeat]:
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    first.tick(), second.tick()
    rig.keep_touched(60)
    wire_of(first).after("commit", die)
    with pytest.raises(Died):
        first.tick()
    second.run(2.9)
    assert sent(first, second) == []
    return first, second


def test_1_a_fire_left_by_a_dead_beat_is_sent_although_the_mark_is_past_it(rig: Rig) -> None:
    """Within 3 s and a moment, with its own task id, and it does not disturb the next due time."""
    first, second = _dies_before_sending(rig)
    second.run(0.3)
    assert sent(second) == [rig.key(60)]
    assert second.sent[0].task_id == NAMESPACE.fire_id(rig.key(60))
    second.run(60)
    assert sent(first, second) == [rig.key(60), rig.key(120)]


def test_1_without_takeover_it_is_lost(rig: Rig) -> None:
    """The scan never sees it again: only the outbox knows it."""
    with mock.patch.object(Outbox, "swept"):
        first, second = _dies_before_sending(rig)
        second.run(90)
        assert sent(first, second) == [rig.key(120)]


# --- 2: a failed publish and the next plan ----------------------------------------------------------------------------


def _publish_fails(rig: Rig) -> ManualBeat:
    beat = rig.beat("B1", every(15))
    beat.tick()
    rig.clock.advance(15)
    broker(beat, down="broker is down")
    beat.tick()
    rig.clock.advance(15.5)
    broker(beat)
    beat.run(2)
    return beat


def test_2_a_fire_whose_publish_failed_is_not_missed_by_the_next_plan(rig: Rig) -> None:
    """Committed, it is out of the scan's sight: the next plan does not coalesce it, and it is sent once."""
    beat = _publish_fails(rig)
    assert sorted(sent(beat)) == [rig.key(15), rig.key(30)]
    assert told(beat, events.FIRE_MISSED) == []


def test_2_without_moving_the_mark_it_is_missed_and_sent(rig: Rig) -> None:
    """A mark that waits for the send lets the next plan see it again."""
    with BUGS["scan plans again what is in the outbox"].patch():
        beat = _publish_fails(rig)
    assert rig.key(15) in sent(beat)
    assert any("10:00:15" in text for text in told(beat, events.FIRE_MISSED))


# --- 3: one beat fires late, the other plans a moment later -----------------------------------------------------------


def _fires_in_the_last_moment(rig: Rig) -> tuple[ManualBeat, ManualBeat]:
    rig.clock.advance(30)
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    first.tick(), second.tick()
    rig.clock.advance(30 + 59.9)
    first.tick()
    assert sent(first) == [rig.key(60)]
    rig.clock.advance(0.2)
    wire_of(second).before("commit", lambda: rig.clock.advance(0.001))
    second.run(1)
    return first, second


def test_3_a_fired_due_time_is_not_also_missed(rig: Rig) -> None:
    """B1 fires 10:01 at 10:01:59.9; B2, planning 10:01 and 10:02 at 10:02:00.1, finds the mark moved and plans anew."""
    first, second = _fires_in_the_last_moment(rig)
    assert sent(first, second) == [rig.key(60), rig.key(120)]
    assert told(first, events.FIRE_MISSED) + told(second, events.FIRE_MISSED) == []


def test_3_without_comparing_the_mark_it_is_both(rig: Rig) -> None:
    """A plan made from an old mark is carried out."""
    with BUGS["commit without comparing mark and claim"].patch():
        first, second = _fires_in_the_last_moment(rig)
    assert rig.key(60) in sent(first)
    assert any("10:01:00" in text for text in told(second, events.FIRE_MISSED))


# --- 7: a confirm is lost ---------------------------------------------------------------------------------------------


def _sent_twice(rig: Rig) -> list[str]:
    """B1 sends and dies before its confirm, B2 sends again: the task ids."""
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    first.tick(), second.tick()
    rig.keep_touched(60)
    wire_of(first).before("confirm", die)
    with pytest.raises(Died):
        first.tick()
    second.run(4)
    return [message.task_id for message in first.sent + second.sent]


def test_7_a_repeated_message_has_the_same_task_id_and_runs_once(rig: Rig) -> None:
    """The second delivery is a duplicate."""
    ids = _sent_twice(rig)
    assert len(ids) == 2
    assert len(set(ids)) == 1
    first = delivery_of(rig.key(60), "W1#1")
    assert rig.start(first).verdict is StartVerdict.RUN
    rig.finish(first)
    assert rig.start(delivery_of(rig.key(60), "W2#1")).verdict is StartVerdict.DUPLICATE


def test_7_without_the_guard_at_start_it_runs_twice(rig: Rig) -> None:
    """If Start opens an ended fire, the repeat is a second execution."""
    _sent_twice(rig)
    first = delivery_of(rig.key(60), "W1#1")
    rig.start(first)
    rig.finish(first)
    with BUGS["Start opens an ended fire"].patch():
        assert rig.start(delivery_of(rig.key(60), "W2#1")).verdict is StartVerdict.RUN


@pytest.mark.parametrize("carried_out", [True, False])
def test_7_a_beat_that_lives_does_not_even_send_again(rig: Rig, carried_out: bool) -> None:
    """It knows what it sent: when the coordinator answers again, it confirms instead."""
    beat = rig.beat("B1", every(60))
    beat.tick()
    rig.clock.advance(60)
    (wire_of(beat).lose_reply if carried_out else wire_of(beat).refuse)("confirm")
    beat.run(20)
    assert sent(beat) == [rig.key(60)]
    assert rig.status(rig.key(60)) is Status.SENT


# --- 8: a beat is stopped between commit and send ---------------------------------------------------------------------


def _stopped_before_sending(rig: Rig) -> tuple[ManualBeat, ManualBeat]:
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    first.tick(), second.tick()
    rig.keep_touched(60)
    wire_of(first).after("commit", lambda: rig.keep_touched(12, second))
    first.tick()
    first.run(3)
    return first, second


def test_8_a_beat_that_wakes_with_an_old_claim_does_not_send(rig: Rig) -> None:
    """Its claim is older than it may be without renewing, renewing fails, and the other has sent the fire."""
    first, second = _stopped_before_sending(rig)
    assert sent(second) == [rig.key(60)]
    assert sent(first) == []
    assert "renew" in wire_of(first).calls


def test_8_without_renewing_it_sends_again(rig: Rig) -> None:
    """However old the claim."""
    with BUGS["an old claim is sent without renewing"].patch():
        first, second = _stopped_before_sending(rig)
    assert sent(first) == sent(second) == [rig.key(60)]


# --- 9: the coordinator is out while a claim waits --------------------------------------------------------------------


def _out_with_a_claim_in_the_outbox(rig: Rig) -> tuple[ManualBeat, ManualBeat]:
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    first.tick(), second.tick()
    rig.clock.advance(60)
    broker(first, down="broker is down")
    first.tick()
    second.tick()
    rig.clock.advance(12)
    second.run(1)
    return first, second


def test_9_an_outage_makes_no_claim_old(rig: Rig) -> None:
    """Nobody takes it from the living B1 because of its age alone; B1 itself, not judging anybody, goes on with it."""
    first, second = _out_with_a_claim_in_the_outbox(rig)
    assert sent(second) == []
    broker(first)
    first.run(2)
    assert sent(first) == [rig.key(60)]
    assert sent(second) == []


def test_9_without_judge_from_it_is_taken(rig: Rig) -> None:
    """Whoever comes back first takes everything."""
    with BUGS["takeover judged during an outage"].patch():
        _, second = _out_with_a_claim_in_the_outbox(rig)
    assert sent(second) == [rig.key(60)]


# --- 23: three beats after an outage of hours -------------------------------------------------------------------------


def _three_beats_after_three_hours(rig: Rig) -> list[ManualBeat]:
    rig.clock.advance(30)
    before = rig.beat("B0", every(60, misfire_grace=None))
    before.tick()
    before.close()
    rig.clock.advance(3 * 3600 - 30 + 4)
    beats = [rig.beat(f"B{n}", every(60, misfire_grace=None), offset=0.2 * n) for n in (1, 2, 3)]
    for beat, other in itertools.pairwise([*beats, beats[0]]):
        # Each is overtaken by the next between its plan and its commit.
        wire_of(beat).before("commit", other.tick)
    for beat in beats:
        beat.tick()
        rig.clock.advance(0.7)
    for beat in beats:
        beat.tick()
    return beats


def test_23_recovering_together_fires_one_and_misses_one_range(rig: Rig) -> None:
    """180 due times: the latest is fired, 179 are one entry of the history."""
    beats = _three_beats_after_three_hours(rig)
    assert sent(*beats) == [rig.key(3 * 3600)]
    fired, missed = rig.coordinator.fires("s")
    assert (fired.status, fired.origin) == (Status.SENT, "schedule")
    assert (missed.status, missed.reason, missed.count) == (Status.MISSED, "coalesced", 179)
    assert missed.due_at == rig.at(60)
    assert missed.until == rig.at(3 * 3600 - 60)


def test_23_without_comparing_mark_and_claim_each_fires(rig: Rig) -> None:
    """Three plans, three commits, three messages."""
    with BUGS["commit without comparing mark and claim"].patch():
        beats = _three_beats_after_three_hours(rig)
    assert len(sent(*beats)) > 1


# --- 30: a schedule removed in a rolling deploy -----------------------------------------------------------------------


def _removed_while_in_the_outbox(rig: Rig) -> ManualBeat:
    """The old code commits and dies; the new code does not know the schedule."""
    old = rig.beat("old", every(60))
    old.tick()
    rig.keep_touched(60)
    wire_of(old).after("commit", die)
    with pytest.raises(Died):
        old.tick()
    new = rig.beat("new", every(60, "other"))
    new.run(6)
    return new


def test_30_a_beat_that_knows_the_schedule_sends_its_fire(rig: Rig) -> None:
    """Those that do not know it leave it alone."""
    new = _removed_while_in_the_outbox(rig)
    assert rig.status(rig.key(60)) is Status.PENDING
    still_old = rig.beat("old too", every(60))
    still_old.run(1)
    assert sent(still_old) == [rig.key(60)]
    assert rig.key(60) not in sent(new)


def test_30_nobody_knows_it_for_a_day(rig: Rig) -> None:
    """Then it is skipped as deleted: recorded, not lost."""
    new = _removed_while_in_the_outbox(rig)
    rig.clock.advance(86_000)
    new.run(30)
    assert rig.status(rig.key(60)) is Status.PENDING
    rig.clock.advance(400)
    new.run(30)
    assert (rig.record(rig.key(60)).status, rig.record(rig.key(60)).reason) == (Status.SKIPPED, "deleted")


def test_30_without_waiting_the_deploy_loses_it(rig: Rig) -> None:
    """If the first beat that does not know it ends it, the one that knows has nothing to send."""
    with mock.patch.object(dispatch_outbox, "_ORPHANED_AFTER", timedelta(0)):
        _removed_while_in_the_outbox(rig)
    still_old = rig.beat("old too", every(60))
    still_old.run(1)
    assert sent(still_old) == []
    assert rig.record(rig.key(60)).status is Status.SKIPPED


def test_nothing_of_the_coordinator_is_left_patched() -> None:
    """The companions above put every rule back."""
    assert outbox.commit.__name__ == "commit"
    assert outbox.takeable.__name__ == "takeable"
