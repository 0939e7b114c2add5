"""The guard inside one process: Celery's own tracer, a coordinator in memory, no broker."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import pytest
from celery import Celery, Task
from celery.app.trace import build_tracer
from celery.exceptions import Reject

from celery_parrot.errors import TargetMissing
from celery_parrot.model.fire import Status
from celery_parrot.protocols import Delivery, StartVerdict
from celery_parrot.runtime.current import CurrentFire, current_fire
from celery_parrot.runtime.worker import headers
from celery_parrot.runtime.worker.guard import HeldTooLong
from tests.unit.runtime.worker.place import DUE, KEY, NAME, Make, state_of

# --- every kind of task has the hook ---


def test_plain_bound_and_late(place: Make) -> None:
    here = place()
    seen: list[CurrentFire | None] = []

    @here.app.task(shared=False)
    def plain() -> str:
        seen.append(current_fire())
        return "ok"

    here.app.finalize()
    assert state_of(here.run(plain)) is None
    assert here.record().output == "ok"
    assert seen[0] is not None
    assert (seen[0].fire_id, seen[0].due_at, seen[0].attempt) == (NAME.fire_id(KEY), DUE, 1)
    assert seen[0].lost, "a fire that is over is not held any more"
    assert current_fire() is None

    @here.app.task(shared=False)
    def late() -> None:
        raise AssertionError("a second delivery must not run")

    assert state_of(here.run(late, token="t2")) == "IGNORED"


def test_base_class_with_hooks_of_its_own(place: Make) -> None:
    here = place()
    calls: list[str] = []

    class Base(Task):  # type: ignore[type-arg]
        abstract = True

        def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
            calls.append(f"base {current_fire() is not None}")

    class Own(Base):
        name = "own"

        def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
            super().before_start(task_id, args, kwargs)
            calls.append("own")

        def run(self) -> str:
            calls.append("run")
            return "ok"

    here.app.register_task(Own())
    here.run(Own)
    assert calls == ["base True", "own", "run"]
    here.run(Own, token="t2")
    assert calls == ["base True", "own", "run"]


def test_before_start_given_as_an_option_or_an_annotation(place: Make) -> None:
    here = place()
    calls: list[Any] = []
    here.app.conf.task_annotations = {"annotated": {"before_start": lambda self, *args: calls.append("annotated")}}

    @here.app.task(shared=False, name="option", before_start=lambda self, *args: calls.append("option"))
    def option() -> None: ...

    @here.app.task(shared=False, name="annotated")
    def annotated() -> None: ...

    here.app.finalize()
    from celery import signals

    class Controller:
        app = here.app

    signals.worker_init.send(sender=Controller())
    here.run(option)
    here.run(annotated, token="t2")
    assert calls == ["option"]


def test_messages_of_others_are_untouched(place: Make) -> None:
    here = place()

    @here.app.task(shared=False)
    def task() -> str:
        return str(current_fire())

    here.run(task, scheduler="another")
    here.app.finalize()
    traced = build_tracer(task.name, here.app.tasks[task.name], app=here.app)("x", [], {}, {"delivery_info": {}})
    assert traced.retval == "None"
    assert here.app.tasks[task.name].apply(headers=cast(Any, {"parrot": {"scheduler": "unit"}})).get() == "None"
    assert here.installed.sessions.existing() is None


def test_a_header_that_cannot_be_read(place: Make) -> None:
    here = place()

    @here.app.task(shared=False)
    def task() -> str:
        return "ran"

    assert here.run(task, due_at="yesterday").retval == "ran"


# --- put back ---


def test_put_back_is_marked_and_keeps_its_identity(place: Make) -> None:
    here = place()
    here.server.client().start([Delivery(key=KEY, name="s", kind="task", token="other", worker="w")])

    @here.app.task(shared=False)
    def task() -> None:
        raise AssertionError

    assert state_of(here.run(task, request={"timelimit": [9, 8], "retries": 0})) == "IGNORED"
    (sent,) = here.published
    assert (sent["task_id"], sent["countdown"], sent["retries"], sent["queue"]) == ("id", 15.0, 0, "q")
    assert (sent["time_limit"], sent["soft_time_limit"]) == (9, 8)
    assert sent["headers"]["parrot"]["put_back"] is True
    assert "token" not in sent["headers"]["parrot"]


def test_held_back_is_not_marked_as_put_back(place: Make) -> None:
    here = place()
    here.down = True

    @here.app.task(shared=False)
    def task() -> None:
        raise AssertionError

    assert state_of(here.run(task)) == "IGNORED"
    assert "put_back" not in here.published[0]["headers"]["parrot"]
    assert state_of(here.run(task, put_back=True)) == "IGNORED"
    assert here.published[1]["headers"]["parrot"]["put_back"] is True


def test_neither_coordinator_nor_broker_acks_late(place: Make) -> None:
    here = place()
    here.down, here.publish_fails = True, 1

    @here.app.task(shared=False, acks_late=True)
    def task() -> None:
        raise AssertionError

    traced = here.run(task)
    assert state_of(traced) == "REJECTED"
    assert traced.info.retval.requeue


def test_neither_coordinator_nor_broker_keeps_trying(place: Make) -> None:
    here = place()
    here.down, here.publish_fails = True, 3

    @here.app.task(shared=False)
    def task() -> None:
        raise AssertionError

    assert state_of(here.run(task)) == "IGNORED"
    assert len(here.published) == 1


def test_neither_for_too_long_is_loud(place: Make, caplog: pytest.LogCaptureFixture) -> None:
    here = place()
    here.down, here.publish_fails = True, 10_000

    @here.app.task(shared=False)
    def task() -> None:
        raise AssertionError

    traced = here.run(task)
    assert state_of(traced) == "FAILURE"
    assert isinstance(traced.info.retval, HeldTooLong)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
    assert "neither coordinator nor broker for 300 s" in said


def test_run_all_the_same(place: Make) -> None:
    here = place(unreachable="run")
    here.down = True

    @here.app.task(shared=False)
    def task() -> bool:
        fire = current_fire()
        return fire is not None and not fire.lost

    assert here.run(task).retval is True


# --- outcomes ---


def test_outcomes(place: Make) -> None:
    here = place()

    @here.app.task(shared=False)
    def missing() -> None:
        raise TargetMissing("no agent")

    here.run(missing)
    record = here.record()
    assert (record.status, record.error) == (Status.TARGET_MISSING, "TargetMissing: no agent")


def test_retry_goes_out_without_token_and_mark(place: Make) -> None:
    here = place()

    @here.app.task(shared=False, bind=True)
    def task(self: Any) -> None:
        raise self.retry(countdown=30)

    assert (
        state_of(here.run(task, put_back=True, request={"retries": 0, "headers": None})) == "IGNORED"
    )  # unknown claim
    assert state_of(here.run(task)) == "RETRY"
    (sent,) = here.published
    assert sent["retries"] == 1
    assert set(sent["headers"]["parrot"]) == {"scheduler", "schedule_id", "due_at"}
    assert here.record().status is Status.SENT


def test_reject_with_requeue_leaves_the_lease_to_lapse(place: Make) -> None:
    here = place()

    @here.app.task(shared=False, acks_late=True)
    def task() -> None:
        raise Reject("later", requeue=True)

    assert state_of(here.run(task)) == "REJECTED"
    assert here.record().status is Status.RUNNING
    assert here.installed.sessions.get().lifecycle.running == ()


def test_reject_of_an_acknowledged_message_is_an_error(place: Make) -> None:
    here = place()

    @here.app.task(shared=False)
    def task() -> None:
        raise Reject("later", requeue=True)

    here.run(task)
    assert here.record().status is Status.ERROR


def test_a_coordinator_that_fails_at_the_end_changes_no_result(place: Make) -> None:
    here = place()

    @here.app.task(shared=False)
    def task() -> str:
        coordinator = here.installed.sessions.get()._coordinator
        coordinator.finish = _fail  # type: ignore[method-assign]
        return "fine"

    traced = here.run(task)
    assert (traced.retval, traced.info) == ("fine", None)


def _fail(outcomes: Any) -> Any:
    raise ZeroDivisionError


# --- headers ---


def test_a_retry_has_a_deadline_of_its_own() -> None:
    header = {"schedule_id": "s", "due_at": DUE.isoformat(), "deadline": (DUE + timedelta(seconds=900)).isoformat()}
    first = headers.read_delivery(header, worker="w", retries=0, eta=None)
    assert first.deadline == DUE + timedelta(seconds=900)
    later = (DUE + timedelta(hours=2)).isoformat()
    assert headers.read_delivery(header, worker="w", retries=1, eta=later).deadline == DUE + timedelta(hours=2.25)
    assert headers.read_delivery(header, worker="w", retries=1, eta=None).deadline is None


def test_what_a_fire_holds_travels_with_its_message(place: Make) -> None:
    """Where its claim was forgotten it does not run: a beat asks for its limits again."""
    here = place()

    @here.app.task(shared=False)
    def task() -> None:
        raise AssertionError

    traced = here.run(task, limits=True, override='{"args": [7]}')
    assert state_of(traced) == "IGNORED"
    (fire,) = here.server.client().claims([KEY])
    assert fire is not None
    assert (fire.status, fire.attempt, fire.override) == (Status.PENDING, 2, '{"args": [7]}')


def test_expired_is_ignored(place: Make) -> None:
    here = place()

    @here.app.task(shared=False)
    def task() -> None:
        raise AssertionError

    here.clock.advance(60)
    for _ in range(20):  # nobody is judged right after a silence
        here.clock.advance(1)
        here.server.client().attach()
    assert state_of(here.run(task, deadline=(DUE + timedelta(seconds=30)).isoformat())) == "IGNORED"
    assert here.record().status is Status.EXPIRED
    assert StartVerdict.EXPIRED


def test_headers_handed_on_to_another_task_do_not_make_it_the_fire(place: Make) -> None:
    """It runs, whatever has become of the fire, and is not the current fire. The fire keeps its own outcome."""
    here = place()
    ran: list[CurrentFire | None] = []

    @here.app.task(name="child")
    def child() -> str:
        ran.append(current_fire())
        return "the child's"

    here.run(child, fire_id="id")
    assert here.record().output == "the child's"
    here.run(child, fire_id="another", token="t2")
    assert [fire is None for fire in ran] == [False, True]
    assert here.published == []


# --- the result backend is down ---


def _refuse_results(monkeypatch: pytest.MonkeyPatch, app: Celery) -> None:
    """A client that fails as real ones do: with exceptions raised while others are handled."""

    def store(*args: Any, **kwargs: Any) -> None:
        try:
            raise ConnectionRefusedError(111, "refused")
        except OSError as exc:
            raise RuntimeError("cannot connect") from exc

    monkeypatch.setattr(app.backend, "store_result", store)


def test_an_error_that_could_not_be_stored_is_recorded_as_the_tasks_own(
    place: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the backend's, which the log has."""
    here = place()
    _refuse_results(monkeypatch, here.app)

    @here.app.task(name="fails")
    def fails() -> None:
        try:
            raise KeyError("first")
        except KeyError as exc:
            raise ValueError("its own") from exc

    with suppress(RuntimeError, RuntimeWarning):  # by version of Celery
        here.run(fails)
    record = here.record()
    assert (record.status, record.error) == (Status.ERROR, "ValueError: its own")


def test_a_retry_that_could_not_be_stored_goes_on(place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its message was sent before the backend was asked: the fire has not ended, and its next attempt runs."""
    here = place()
    _refuse_results(monkeypatch, here.app)

    @here.app.task(name="retries", bind=True)
    def retries(self: Any) -> str:
        if not self.request.retries:
            raise self.retry(countdown=0)
        return "second"

    with suppress(RuntimeError, RuntimeWarning):
        here.run(retries)
    assert len(here.published) == 1
    assert here.record().status is Status.SENT
    monkeypatch.undo()
    here.run(retries, request={"retries": 1}, token="t2")
    record = here.record()
    assert (record.status, record.output, record.attempt) == (Status.SUCCESS, "second", 2)
