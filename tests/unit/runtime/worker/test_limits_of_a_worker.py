"""What a worker adds to a fire that may be reaped: its thresholds, signs of progress, deadlines of retries."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery

from celery_parrot import Parrot
from celery_parrot.model.fire import Status
from celery_parrot.model.schedule import Kind
from celery_parrot.protocols import Outcome, Progress
from celery_parrot.runtime.current import NOTE_LIMIT, CurrentFire, current_fire
from celery_parrot.runtime.results import MARKER
from celery_parrot.runtime.worker import Thresholds, registry
from tests.unit.runtime.worker.place import DUE, Make, Place, state_of

DEADLINE = (DUE + timedelta(seconds=900)).isoformat()
KINDS = {
    "agent": Kind(name="agent", task="run", reap_after=60.0),
    "report": Kind(name="report", task="run"),
    "task": Kind(name="task", declared=False, reap_after=5.0),
}


class Told:
    """The outcomes that a place's worker sends, and the leases that it renews."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outcomes: list[Outcome] = []
        lifecycle = place.installed.sessions.get().lifecycle
        close = lifecycle.close

        def note(outcome: Outcome, **options: Any) -> None:
            self.outcomes.append(outcome)
            close(outcome, **options)

        monkeypatch.setattr(lifecycle, "close", note)


# --- thresholds ---


def test_only_kinds_that_this_worker_declares_are_watched_for_silence() -> None:
    thresholds = Thresholds.of(KINDS, 300.0)
    assert [thresholds.silent_after(kind) for kind in ("agent", "report", "task", "unknown")] == [
        60.0,
        300.0,
        None,
        None,
    ]
    assert thresholds.deadline("agent", DUE) == DUE + timedelta(seconds=60)
    assert thresholds.deadline("task", DUE) == DUE + timedelta(seconds=300)
    assert thresholds.deadline("unknown", DUE) == DUE + timedelta(seconds=300)


@pytest.mark.parametrize(("kind", "seconds"), [("agent", 60.0), ("task", None), ("unknown", None)])
def test_a_delivery_says_after_which_silence_its_fire_is_reaped(place: Make, kind: str, seconds: float | None) -> None:
    here = place(thresholds=Thresholds.of(KINDS, 300.0))
    running: list[float | None] = []

    @here.app.task(shared=False)
    def task() -> None:
        running.extend(one.delivery.silent_after for one in here.installed.sessions.get().lifecycle.running)

    here.run(task, kind=kind)
    assert running == [seconds]


# --- progress ---


def test_progress_reaches_the_lease(place: Make) -> None:
    here = place()
    signs: list[Progress | None] = []

    @here.app.task(shared=False)
    def task() -> None:
        fire = current_fire()
        assert fire is not None
        fire.progress("halfway", 0.5)
        signs.extend(run.sign for run in here.installed.sessions.get().lifecycle._leases._runs.values())
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(_say, "from a thread"))
        thread.start()
        thread.join()
        signs.extend(run.sign for run in here.installed.sessions.get().lifecycle._leases._runs.values())

    _hold_keeper(here)
    here.run(task)
    assert signs == [Progress("halfway", 0.5), Progress("from a thread")]


def _say(note: str) -> None:
    fire = current_fire()
    assert fire is not None
    fire.progress(note)


def _hold_keeper(here: Place) -> None:
    """Nothing is told beside the task."""
    session = here.installed.sessions.get()
    session._stopping = True
    session.lifecycle.wake.set()
    session._keeper.join()
    session.lifecycle.wake.clear()


def test_progress_of_a_fire_that_was_not_opened_harms_nothing(place: Make) -> None:
    here = place(unreachable="run")
    here.down = True

    @here.app.task(shared=False)
    def task() -> str:
        fire = current_fire()
        assert fire is not None
        fire.progress("on", 1)
        return "ran"

    assert here.run(task).retval == "ran"


def test_progress_after_the_end_harms_nothing(place: Make) -> None:
    here = place()
    kept: list[CurrentFire] = []

    @here.app.task(shared=False)
    def task() -> None:
        fire = current_fire()
        assert fire is not None
        kept.append(fire)

    here.run(task)
    kept[0].progress("too late")
    assert here.record().status is Status.SUCCESS


def _fire(signs: list[Progress]) -> CurrentFire:
    return CurrentFire(
        scheduler="unit",
        schedule_id="s",
        name="s",
        fire_id="id",
        due_at=DUE,
        origin="schedule",
        kind="task",
        attempt=1,
        _progress=signs.append,
    )


@pytest.mark.parametrize("fraction", [-0.01, 1.01, float("nan"), float("inf"), "0.5", 10**400, object()])
def test_a_fraction_that_is_none_is_one_clear_error(fraction: Any) -> None:
    signs: list[Progress] = []
    with pytest.raises(ValueError, match=r"^fraction must be a number from 0 to 1, or None; got "):
        _fire(signs).progress("on", fraction)
    assert signs == []


def test_a_note_is_cut() -> None:
    signs: list[Progress] = []
    fire = _fire(signs)
    fire.progress("x" * 1_000_000, 0)
    fire.progress("\udcff", 1)
    fire.progress()
    assert [len(sign.note) for sign in signs] == [NOTE_LIMIT, 1, 0]
    assert signs[0].note.endswith(MARKER)
    assert [sign.fraction for sign in signs] == [0.0, 1.0, None]
    signs[1].note.encode()


# --- deadlines ---


def test_a_retry_has_a_deadline_from_its_own_start(place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer away than the old deadline: it runs all the same. Its instants are by the coordinator's clock; this
    worker's own is wrong."""
    here = place(thresholds=Thresholds.of(KINDS, 300.0))
    told = Told(here, monkeypatch)

    @here.app.task(shared=False, bind=True)
    def task(self: Any) -> str:
        here.worker_clock.offset = 3600
        if not self.request.retries:
            raise self.retry(countdown=3600)
        return "second"

    header: dict[str, Any] = {"kind": "agent", "deadline": DEADLINE}
    assert state_of(here.run(task, **header)) == "RETRY"
    (outcome,) = told.outcomes
    assert (outcome.retry_at, outcome.deadline) == (DUE + timedelta(hours=1), DUE + timedelta(hours=1, seconds=60))
    (sent,) = here.published
    assert sent["headers"]["parrot"]["deadline"] == DEADLINE
    here.pass_time(3630)
    eta = (DUE + timedelta(hours=1)).isoformat()
    assert here.run(task, request={"retries": 1, "eta": eta}, token="t2", **header).retval == "second"
    record = here.record()
    assert (record.status, record.output, record.attempt) == (Status.SUCCESS, "second", 2)


def test_a_retry_at_an_instant_counts_from_that(place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = place(thresholds=Thresholds.of(KINDS, 300.0))
    told = Told(here, monkeypatch)
    eta = DUE + timedelta(days=2)

    @here.app.task(shared=False, bind=True)
    def task(self: Any) -> None:
        raise self.retry(eta=eta)

    here.run(task, kind="report", deadline=DEADLINE)
    assert told.outcomes[0].deadline == eta + timedelta(seconds=300)


def test_what_had_no_deadline_gets_none(place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = place(thresholds=Thresholds.of(KINDS, 300.0))
    told = Told(here, monkeypatch)

    @here.app.task(shared=False, bind=True)
    def task(self: Any) -> None:
        if not self.request.retries:
            raise self.retry(countdown=5)

    here.run(task)
    here.run(task, request={"retries": 1}, token="t2", deadline=DEADLINE)
    assert [outcome.deadline for outcome in told.outcomes] == [None, None]


# --- messages in hand ---


class Received:
    """As much of a request as a worker's main process looks at."""

    def __init__(self, here: Place, token: str = "t1", **header: Any) -> None:
        content = {"scheduler": "unit", "schedule_id": "s", "due_at": DUE.isoformat(), "token": token, **header}
        self.request_dict = {"id": "id", "parrot": content, "retries": 0}
        self.hostname = "w"


def in_hand(here: Place) -> Sequence[str]:
    session = here.installed.sessions.existing()
    return list(session.lifecycle._reservations._messages) if session is not None else []


def test_only_fires_with_a_deadline_are_noted_when_received(place: Make) -> None:
    here = place()
    plain, declared = Received(here), Received(here, "t2", deadline=DEADLINE)
    here.installed.parent.received(plain)
    assert here.installed.sessions.existing() is None, "a plain fire costs nothing"
    _hold_keeper(here)
    here.installed.parent.received(declared)
    assert in_hand(here) == ["t2"]
    here.installed.parent.accepted(declared)
    assert in_hand(here) == []


def test_a_request_that_celery_let_go_of_is_not_noted_any_more(place: Make) -> None:
    here = place()
    _hold_keeper(here)
    lifecycle = here.installed.sessions.get().lifecycle
    request = Received(here, deadline=DEADLINE)
    here.installed.parent.received(request)
    (message,) = lifecycle._reservations._messages.values()
    assert message.wanted()
    del request
    assert not message.wanted()
    here.clock.advance(1)
    lifecycle.keep()
    assert in_hand(here) == []


def test_a_header_that_cannot_be_read_is_not_noted(place: Make) -> None:
    here = place()
    here.installed.parent.received(Received(here, due_at="yesterday", deadline=DEADLINE))
    assert in_hand(here) == []


def test_without_settings_no_kind_is_declared() -> None:
    assert Thresholds().silent_after("agent") is None
    assert Thresholds().deadline("agent", datetime.fromisoformat(DEADLINE)) == DUE + timedelta(seconds=1800)


def test_the_settings_decide() -> None:
    app = Celery("settings", broker="memory://", set_as_current=False)
    app.conf.parrot_redis_url = "redis://127.0.0.1:1/0"  # nothing is connected
    app.conf.parrot_reap_after = 120
    app.conf.parrot_kinds = {
        "agent": {"task": "run", "reap_after": 60},
        "report": {"task": "run"},
        "task": {"queue": "q"},
    }
    Parrot(app)
    app.finalize()
    (installed,) = registry.of(app)
    assert installed.thresholds == Thresholds({"agent": 60.0, "report": 120.0}, 120.0)
    app.close()
