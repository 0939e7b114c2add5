"""Why a schedule ran, and what came of it: the sentences, word by word."""

from __future__ import annotations

import re
from pathlib import Path

from celery_parrot.dispatch.limits import Bounds
from celery_parrot.model.fire import FireKey, Origin, Status
from celery_parrot.model.schedule import Kind
from celery_parrot.model.state import Beat
from celery_parrot.protocols import NEVER_STARTED, Limits, Progress
from celery_parrot.protocols.demands import Demand, Demands
from tests.unit.client.why_world import Night, at, defined

KINDS = {"agent": Kind(name="agent", task="shop.agent", queue="agents", max_in_flight=1)}
CLAIMED = "Beat test (process 0) claimed it at 03:00:00, on time."
SENT = "It was sent to queue reports at 03:00:00."
NEVER = (
    "It has no queue deadline; if no start is reported by Tue 2026-03-03 03:00:00, it is recorded as unknown. "
    "Workers without Parrot(app) report none."
)


def due(what: str, name: str = "nightly", time: str = "03:00:00") -> str:
    return f"{name}, due Mon 2026-03-02 {time} UTC, {what}"


def test_success_from_the_schedule_to_the_result() -> None:
    """The whole text, in the viewer's zone with the schedule's beside it."""
    night = Night(zone="Europe/Madrid")
    night.until("03:00:00.5")
    night.clock.advance(1.4)
    night.starts()
    night.until("03:00:12", leases=[("nightly", "03:00")])
    night.ends(output="42 rows")
    night.away_until("03:09:59")
    night.until("03:10")
    story = night.why()
    assert str(story).splitlines() == [
        "nightly, due Mon 2026-03-02 04:00:00 Europe/Madrid (03:00:00 UTC), succeeded.",
        "  Its schedule: Every day at 03:00 (UTC).",
        "  Beat test (process 0) claimed it at 04:00:00, on time.",
        "  It was sent to queue reports at 04:00:00.",
        "  Worker celery@w1 picked it up at 04:00:01, 1.9 s later.",
        "  It succeeded at 04:00:12, 10 s later. Result: 42 rows.",
        "The due time before: Sun 2026-03-01 04:00:00 Europe/Madrid (03:00:00 UTC). "
        "The next: Tue 2026-03-03 04:00:00 Europe/Madrid (03:00:00 UTC), in 23 h 50 min.",
    ]
    assert story.to_json() == {
        "schedule": "nightly",
        "due_at": "2026-03-02T03:00:00+00:00",
        "verdict": "success",
        "sentence": story.sentence,
        "steps": [
            {"at": None, "what": "schedule", "text": story.steps[0].text},
            {"at": "2026-03-02T03:00:00+00:00", "what": "claimed", "text": story.steps[1].text},
            {"at": "2026-03-02T03:00:00+00:00", "what": "sent", "text": story.steps[2].text},
            {"at": "2026-03-02T03:00:01.900000+00:00", "what": "started", "text": story.steps[3].text},
            {"at": "2026-03-02T03:00:12+00:00", "what": "outcome", "text": story.steps[4].text},
        ],
        "previous": "2026-03-01T03:00:00+00:00",
        "next": "2026-03-03T03:00:00+00:00",
        "fire_id": night.namespace.fire_id(night.key("03:00")),
    }


def test_error_with_what_it_said() -> None:
    night = Night()
    night.until("03:00:01")
    night.starts()
    night.clock.advance(2)
    night.ends(status=Status.ERROR, error="ValueError: no such table: orders")
    assert night.told() == [
        due("failed."),
        CLAIMED,
        SENT,
        "Worker celery@w1 picked it up at 03:00:01, 1 s later.",
        "It failed at 03:00:03, 2 s later: ValueError: no such table: orders.",
    ]


def test_a_worker_that_does_not_have_the_task() -> None:
    night = Night()
    night.until("03:00:01")
    night.ends(status=Status.TARGET_MISSING, token="", reason="task not registered", error="NotRegistered: shop.report")
    assert night.told()[0] == due("failed: what it should run does not exist.")
    assert night.told()[-1] == (
        "Worker that got it has no task shop.report, and said so at 03:00:01, 1 s later. Is its code up to date?"
    )


def test_a_worker_that_was_lost() -> None:
    """With what would have helped."""
    night = Night()
    night.until("03:00:01")
    night.starts()
    night.until("03:01", leases=[("nightly", "03:00")])
    night.until("03:02")
    assert night.told()[0] == due("was abandoned: its worker was lost.")
    assert night.told()[-1] == (
        "Worker celery@w1 was lost: it gave no sign of life for 15 s. It was given up at 03:01:15, 1 min 14 s after "
        "its "
        "start. That counts as a failure. With recover on its schedule it would be sent once more."
    )


def test_a_lost_worker_and_the_attempt_after_it() -> None:
    night = Night(defined(recover=True))
    night.until("03:00:01")
    night.starts()
    night.until("03:00:25")
    night.starts(attempt=2)
    night.ends(token="t2")
    assert night.told() == [
        due("succeeded."),
        CLAIMED,
        "It was sent to queue reports at 03:00:20, 20 s later.",
        "This is attempt 2. The attempt before it was abandoned, and it was sent once more, as its schedule says "
        "(recover).",
        "Worker celery@w1 picked it up at 03:00:25, 5 s later.",
        "It succeeded at 03:00:25.",
    ]


def test_silence_and_a_result_that_came_too_late() -> None:
    """The outcome stays, the result is told."""
    night = Night()
    night.until("03:00:01")
    night.starts(silent_after=60.0)
    night.until("03:01:01", leases=[("nightly", "03:00")])
    night.until("03:01:10")
    night.ends(output="done after all")
    assert night.told()[-2:] == [
        "It gave no sign of progress for too long and was given up at 03:01:05, 1 min 4 s after its start. celery@w1 "
        "may "
        "still be at it. That counts as a failure. With recover on its schedule it would be sent once more.",
        "A result came in after that. It changes nothing and is kept as a note: success: done after all.",
    ]


def test_nobody_started_it_in_time() -> None:
    night = Night(defined(kind="agent", options={}), kinds=KINDS)
    night.until("03:00:01")
    night.away_until("03:15")
    night.until("03:16")
    assert night.told()[0] == due("expired: no worker started it in time.")
    assert night.told()[-1] == (
        "No worker had started it by its queue deadline, so it expired at 03:15:15, 15 min 15 s later. Does a worker "
        "with "
        "Parrot(app) listen to queue agents?"
    )


def test_nothing_was_heard_of_it_for_a_day() -> None:
    night = Night()
    night.until("03:00:01")
    night.away_until("2026-03-03T03:00:10")
    night.until("2026-03-03T03:01")
    story = night.why(at="yesterday 03:00")
    assert story.verdict == "unknown"
    assert story.steps[-1].text == (
        "No worker has reported a start for 1 d. Does a worker with Parrot(app) listen to queue reports?"
    )
    assert NEVER_STARTED  # the reason in the history


def test_it_waited_for_its_turn_behind_another_schedule() -> None:
    """For which limit, held by whom, how long, and what became of that one."""
    etl = defined("etl", config={"hour": 2, "minute": 59}, exclusion_group="gpu")
    night = Night(defined(exclusion_group="gpu"), etl)
    night.until("02:59:01")
    night.starts("02:59", "etl")
    night.until("03:02", leases=[("etl", "02:59")])
    night.ends("02:59", name="etl")
    night.until("03:02:05")
    night.starts()
    night.ends()
    fire = night.namespace.fire_id(night.key("02:59", "etl"))[:8]
    assert night.told() == [
        due("succeeded."),
        CLAIMED,
        f"It waited for group gpu, which etl (due 02:59:00, fire {fire}) had, from 03:00:00 until 03:02:00 (2 min). "
        "That one ran on celery@w1 for 2 min 59 s and ended at 03:02:00.",
        "It was sent to queue reports at 03:02:01, 1 s later.",
        "Worker celery@w1 picked it up at 03:02:05, 4 s later.",
        "It succeeded at 03:02:05.",
    ]


def test_it_is_waiting_right_now() -> None:
    """Behind whom, its place in line, and until when it waits."""
    names = {"etl": 58, "mail": 59}
    others = [
        defined(name, config={"hour": 2, "minute": minute}, exclusion_group="gpu") for name, minute in names.items()
    ]
    night = Night(defined(exclusion_group="gpu"), *others, bounds=Bounds(reap_after=3600.0), begin=at("02:57"))
    night.until("02:58:01")
    night.starts("02:58", "etl")
    assert night.renew("etl", "02:58", Progress("loading", 0.4))
    night.until("03:02", leases=[("etl", "02:58")])
    assert night.told() == [
        due("is waiting for its turn."),
        CLAIMED,
        "It has been standing in line for group gpu since 03:00:00 (2 min).",
        "etl (due 02:58:00) holds it, running on celery@w1 since 02:58:01 (3 min 59 s), '40% loading'.",
        "It is number 2 of 2 in that line, behind mail (due 02:59:00).",
        "It gives up at 04:00:00 (in 58 min).",
    ]
    assert night.why().verdict == "waiting"


def test_its_turn_did_not_come_in_time() -> None:
    etl = defined("etl", config={"hour": 2, "minute": 59}, exclusion_group="gpu")
    night = Night(defined(exclusion_group="gpu"), etl, bounds=Bounds(reap_after=60.0))
    night.until("02:59:01")
    night.starts("02:59", "etl")
    night.until("03:01:02", leases=[("etl", "02:59")])
    assert night.told()[0] == due("failed: its turn did not come in time.")
    assert night.told()[-1] == (
        "It waited too long for group gpu and was given up at 03:01:01, 1 min 1 s later, without having run. That "
        "counts as a failure."
    )


def test_a_person_ended_it_for_others() -> None:
    night = Night(defined(exclusion_group="gpu"))
    night.until("03:00:01")
    night.starts()
    assert isinstance(night.coordinator, Limits)
    night.client.release_group("gpu", actor="ann")
    assert night.told()[-1] == (
        "It was released by ann at 03:00:01, 0 ms after its start, so that others could go on. That does not count "
        "as a "
        "failure."
    )


def test_its_kind_was_busy() -> None:
    """A success that did nothing says so, and who was in the way."""
    other = defined("other", config={"hour": 2, "minute": 59}, kind="agent", options={})
    night = Night(defined(kind="agent", options={}), other, kinds=KINDS)
    night.until("02:59:01")
    night.starts("02:59", "other", kind="agent")
    night.until("03:00:05", leases=[("other", "02:59")])
    fire = night.namespace.fire_id(night.key("02:59", "other"))[:8]
    assert night.told() == [
        due("did nothing: its kind was busy."),
        CLAIMED,
        "Kind agent had as many fires in flight as it may have (max_in_flight 1), held by other (due 02:59:00, fire "
        f"{fire}). "
        "It was recorded as a success that did nothing. "
        "That one has been running on celery@w1 since 02:59:01 (1 min 4 s).",
    ]
    assert night.why().verdict == "in_flight_skip"


def test_it_is_running_with_progress() -> None:
    night = Night()
    night.until("03:00:01")
    night.starts(silent_after=900.0)
    night.until("03:04", leases=[("nightly", "03:00")])
    night.renew("nightly", "03:00", Progress("loading", 0.4))
    night.until("03:05", leases=[("nightly", "03:00")])
    assert night.told() == [
        due("is running."),
        CLAIMED,
        SENT,
        "Worker celery@w1 picked it up at 03:00:01, 1 s later.",
        "It has been running for 4 min 59 s.",
        "Its last sign of progress was '40% loading', 1 min ago.",
        "Unless it ends or reports progress before, it is given up as silent at 03:19:00.",
        "The worker vouches for it until 03:05:15, and renews that as it goes.",
    ]


def test_it_was_sent_and_not_started() -> None:
    night = Night()
    night.until("03:00:31")
    assert night.told() == [
        due("was sent, and no worker has started it yet."),
        CLAIMED,
        SENT,
        "It has been waiting there for 31 s.",
        NEVER,
    ]
    plain = Night(defined(options={}))
    plain.until("03:00:01")
    assert "It was sent to the queue to which Celery routes shop.report at 03:00:00." in plain.told()


def test_it_lies_in_the_outbox_while_the_broker_is_away() -> None:
    night = Night()
    sender = night.beat.sender
    sender.down = "connection refused"  # type: ignore[attr-defined]
    night.until("03:00:20")
    assert night.told() == [
        due("is claimed and not yet sent."),
        CLAIMED,
        "It has been in the outbox for 20 s, and beat test (process 0) is to send it.",
        "Sending it was begun anew 5 times: its beat died, or the broker did not take it.",
        "That beat is alive: if this lasts for more than a few seconds, the broker is out of its reach.",
    ]


def test_a_catch_up_says_how_late_it_was() -> None:
    night = Night()
    night.away_until("03:02")
    night.until("03:02:01")
    assert night.told()[1] == (
        "Beat test (process 0) claimed it at 03:02:00, 2 min after it was due: nobody did sooner, so it was caught "
        "up on."
    )


def test_jitter_is_told_before_and_after() -> None:
    night = Night(defined(jitter=600.0))
    night.until("03:00:01")
    assert night.told() == [
        due("is sent in 2 min 23 s."),
        "By its jitter of up to 10 min it is sent 2 min 24 s after it is due, at 03:02:24.",
    ]
    night.until("03:02:25")
    assert night.told()[1:3] == [
        "By its jitter of up to 10 min it was to be sent 2 min 24 s after it was due, at 03:02:24.",
        "Beat test (process 0) claimed it at 03:02:24, on time.",
    ]


def test_a_fire_is_found_by_its_id_and_by_that_of_a_later_attempt() -> None:
    night = Night()
    night.until("03:00:01")
    night.away_until("2026-03-03T02:59:55")
    night.until("2026-03-03T03:00:05")
    fire = night.namespace.fire_id(night.key("03:00"))
    assert night.why(fire=fire).due_at == at("03:00")
    assert night.why(fire=f"{fire}:2").due_at == at("03:00")
    assert night.why().due_at == at("2026-03-03T03:00")


def test_what_has_come_between_since_is_told_after_the_latest_fire() -> None:
    """Who asks why nothing runs any more is told so, even if the latest fire went well."""
    night = Night()
    night.until("03:00:01")
    night.starts()
    night.ends()
    night.client.pause("nightly", "stocktaking", "ann")
    night.clock.advance(60)
    assert night.told()[-2:] == [
        "It has been paused by a person since 03:00:01 (1 min), with the note 'ann: stocktaking'. What comes due "
        "meanwhile "
        "is recorded as skipped when it is resumed.",
        "No beat is alive: the last one, on test (process 0), was seen 1 min ago. When one starts, it fires what is "
        "at most "
        "5 min late (misfire_grace).",
    ]


def test_what_a_person_asked_for_says_so() -> None:
    """A run-now and a backfill have a due time, but no schedule asked for them."""
    night = Night()
    night.until("02:59")
    asked = FireKey("nightly", at("02:59"), nonce="n1")
    made_up = FireKey("nightly", at("2026-03-01T03:00"))
    assert isinstance(night.coordinator, Demands)
    night.coordinator.demand(
        [
            Demand(key=asked, name="nightly", kind="task", origin=Origin.RUN_NOW, override={"args": [1]}),
            Demand(key=made_up, name="nightly", kind="task", origin=Origin.BACKFILL),
        ]
    )
    night.until("02:59:03")
    assert night.told()[:3] == [
        "nightly, asked for Mon 2026-03-02 02:59:00 UTC, was sent, and no worker has started it yet.",
        "It was asked for by hand (run-now), with arguments of its own, at 02:59:00, and beat test (process 0) took "
        "it.",
        "It was sent to queue reports at 02:59:01, 1 s later.",
    ]
    assert night.told(at="02:59")[:1] == night.told()[:1]
    assert night.told(at="yesterday 03:00")[1] == (
        "It was asked for by hand (backfill), at Mon 2026-03-02 02:59:00, and beat test (process 0) took it."
    )


def test_a_task_that_asked_for_a_retry() -> None:
    night = Night()
    night.until("03:00:01")
    night.starts()
    night.ends(status=Status.SENT, retry_at=at("03:05"))
    assert night.told() == [
        due("is to be retried."),
        CLAIMED,
        SENT,
        "This is attempt 2. Its task asked for a retry, 1 time so far.",
        "Worker celery@w1 picked it up at 03:00:01, 1 s later.",
        "The message of its retry is on its way or waits for its time; no worker has started it yet.",
    ]


def test_another_beat_sent_what_the_first_had_claimed() -> None:
    night = Night()
    sender = night.beat.sender
    sender.down = "connection refused"  # type: ignore[attr-defined]
    night.until("03:00:00.5")
    night.beat = night.new_beat("beat-two")
    night.until("03:00:06")
    assert night.told()[1:3] == [
        "It was claimed at 03:00:00, on time, and sent by beat test (process 0), because a beat had died or the "
        "broker had "
        "not taken it.",
        "It was sent to queue reports at 03:00:03, 3 s later.",
    ]


def test_the_page_shows_what_is_told() -> None:
    """Word by word: docs/why.md."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "why.md").read_text("utf-8")
    etl = defined("etl", config={"hour": 2, "minute": 59}, exclusion_group="gpu")
    night = Night(defined(exclusion_group="gpu"), etl, zone="Europe/Madrid")
    night.until("02:59:01")
    night.starts("02:59", "etl")
    night.until("03:02", leases=[("etl", "02:59")])
    night.ends("02:59", name="etl")
    night.until("03:02:05")
    night.starts()
    night.ends(output="42 rows")
    paused = Night()
    paused.client.pause("nightly", "stocktaking", "ann")
    paused.until("03:01")
    assert re.findall(r"```console\n\$ .*\n((?s:.*?))\n```", page) == [str(night.why()), str(paused.why())]


def test_a_beat_that_cannot_read_the_store() -> None:
    night = Night()
    night.clock.move_to(at("03:00:30"))
    web = Beat(
        owner="x", host="web-2", pid=7, version="1", started=at("02:00"), seen=at("02:00"), failing={"code": 40.0}
    )
    night.coordinator.sweep(web)
    assert night.told() == [
        due("has not run: its beats cannot reach what they need."),
        "Beat web-2 (process 7) has not been able to read the code store for 40 s.",
    ]


def test_it_waits_for_the_fire_before_it() -> None:
    """An overlap that is buffered is a wait for itself."""
    night = Night(defined("n", "interval", {"minutes": 1}, overlap="buffer_one"))
    night.until("02:59:01")
    night.starts("02:59", "n")
    night.until("03:00:30", leases=[("n", "02:59")])
    assert night.told("n")[2:4] == [
        "It has been standing in line for the fire before it to end since 03:00:00 (30 s).",
        "n (due 02:59:00) holds it, running on celery@w1 since 02:59:01 (1 min 29 s).",
    ]


def test_of_an_older_fire_the_present_is_not_told() -> None:
    """A pause of today has nothing to do with what ran yesterday."""
    night = Night(defined("n", "interval", {"minutes": 1}))
    night.until("03:00:01")
    night.client.pause("n", "stocktaking", "ann")
    assert "paused" in str(night.why("n"))
    assert "paused" not in str(night.why("n", at="02:59"))
    assert "paused" not in str(night.why("n", fire=night.namespace.fire_id(night.key("02:59", "n"))))
