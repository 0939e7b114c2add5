"""The delivery task in a real worker: comes again, reports, shows nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, signals
from celery.contrib.testing.worker import start_worker
from kombu.transport.virtual import Channel

from celery_parrot.clock import SystemClock, new_id
from celery_parrot.delivery import MailServer
from celery_parrot.dispatch.deliveries import TASK, message_of
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.allowed import AllowedTasks
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import About, DeliveryReport, Parcel
from celery_parrot.runtime.conf_delivery import DeliverySettings
from celery_parrot.runtime.delivery import Reporter, add_callback, callbacks_of, register
from celery_parrot.runtime.sender import CelerySender
from tests.integration.delivery.receivers import Post, free_port, mail_server
from tests.support.waiting import wait_until
from tests.unit.delivery.stories import FIRE, parcel

SECRET = "s3cret-token-value"


class Desk:
    """An app with a worker; what was reported."""

    def __init__(self, port: int) -> None:
        self.app = Celery("shop", broker=f"memory://{new_id()}", set_as_current=False)
        self.app.conf.update(
            worker_hijack_root_logger=False,
            broker_transport_options={"polling_interval": 0.02},
            worker_enable_remote_control=False,
        )
        self.reports: list[DeliveryReport] = []
        self.failing: list[Exception] = []
        self.tries = 4
        self.after: list[Any] = []
        self.mail = MailServer.of(f"smtp://me:{SECRET}@127.0.0.1:{port}")
        self.register()

        @self.app.task(name="app.after", shared=False)
        def after(*args: Any, **kwargs: Any) -> None:
            self.after.append((after.request.id, args, kwargs))

    def register(self) -> None:
        recipients = ("on@example.com",)
        settings = DeliverySettings(mail=self.mail, mail_from="parrot@example.com", alert_recipients=recipients)
        retries: Any = self  # how often is up to each test
        register(self.app, settings, self.report, SystemClock(), retries=retries)

    def pause(self, tries: int) -> float | None:
        return 0.05 if tries < self.tries else None

    def report(self, said: DeliveryReport) -> None:
        if self.failing:
            raise self.failing.pop()
        self.reports.append(said)

    def send(self, story: Parcel | None = None, **told: Any) -> None:
        story = story or parcel()
        schedule = Schedule(
            schedule_id="nightly-id", name="nightly", target="t", schedule_type="interval", schedule_config={}, **told
        )
        message = message_of(story, schedule, None)
        assert message is not None
        CelerySender(self.app, SystemClock()).send([message], until=float("inf"))

    def until(self, status: str) -> DeliveryReport:
        wait_until(lambda: [one for one in self.reports if one.status == status], f"a report {status}")
        return self.reports[-1]


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def shared(port: int) -> Iterator[Desk]:
    """One worker for all, which takes seconds to end. It silences the root logger of this process, as Celery's do; the
    tests after these must hear warnings again."""
    desk, level = Desk(port), logging.root.level
    with start_worker(desk.app, pool="solo", perform_ping_check=False, shutdown_timeout=10.0):
        yield desk
    logging.root.setLevel(level)


@pytest.fixture
def desk(shared: Desk) -> Desk:
    """With nothing in it; each test waits until its own is over."""
    shared.reports.clear()
    shared.after.clear()
    shared.tries = 4
    callbacks_of(shared.app).clear()
    return shared


def test_a_mail_server_that_comes_back_gets_one_mail(desk: Desk, port: int) -> None:
    """Reports in between say that it is being tried."""
    post, desk.tries = Post(), 200
    desk.send(send_result={"to": "a@example.com"})
    desk.until("retrying")
    with mail_server(post, port):
        last = desk.until("delivered")
    assert post.recipients == [["a@example.com"]]
    assert [one.tries for one in desk.reports] == list(range(1, len(desk.reports) + 1))
    assert (last.parcel_id, last.callbacks[0].error) == (f"{FIRE}:success", "")


def test_of_three_the_second_fails_for_good(desk: Desk) -> None:
    """One and three are delivered once, before it is given up; each is recorded. A task gets the story."""
    tried: list[str] = []

    def bad(story: Parcel, key: str) -> None:
        tried.append(key)
        raise ValueError("never")

    add_callback(desk.app, "bad", bad)
    task = {"type": "task", "task": "app.after", "kwargs": {"x": 1}}
    desk.send(callbacks=({**task, "name": "one"}, {"type": "bad"}, {**task, "name": "three"}))
    report = desk.until("partial")
    assert [(one.callback, one.status, one.error, one.tries) for one in report.callbacks] == [
        ("one", "delivered", "", 1),
        ("bad", "failed", "ValueError: never", 4),
        ("three", "delivered", "", 1),
    ]
    assert tried == [f"{FIRE}:success:1"] * 4
    wait_until(lambda: len(desk.after) == 2, "two tasks")
    (_, args, kwargs) = desk.after[0]
    assert (Parcel.from_json(args[0]), kwargs) == (parcel(), {"x": 1})
    assert len({id_ for id_, *_ in desk.after}) == 2


@pytest.mark.parametrize("fault", [Unreachable("redis://u:s3cret-token-value@h"), MemoryLost()])
def test_a_report_that_cannot_be_made_is_made_later(desk: Desk, fault: Exception) -> None:
    """What was delivered is not delivered again for that."""
    heard: list[str] = []
    add_callback(desk.app, "ear", lambda story, key: heard.append(key))
    desk.failing = [fault, fault]
    desk.send(callbacks=({"type": "ear"},))
    report = desk.until("delivered")
    assert report.tries == 3
    assert heard == [f"{FIRE}:success:0"]


def test_nothing_shows_what_a_definition_holds(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the messages' own texts, which events and monitors show, nor logs, nor reports."""
    shown: list[str] = []

    def published(headers: Any = None, **_: Any) -> None:
        shown.append(f"{headers['argsrepr']} {headers['kwargsrepr']}")

    def fail(story: Parcel, key: str, *, password: str) -> None:
        raise RuntimeError(f"cannot log in with {password}")

    caplog.set_level(logging.DEBUG)
    add_callback(desk.app, "fail", fail)
    signals.before_task_publish.connect(published)
    try:
        desk.send(
            callbacks=(
                {"type": "fail", "password": SECRET},
                {"type": "notify", "url": f"slakc://{SECRET}/b/c"},
                {"type": "webhook", "url": f"https://127.0.0.1/{SECRET}", "headers": {"Authorization": SECRET}},
            )
        )
        desk.until("failed")
    finally:
        signals.before_task_publish.disconnect(published)
    assert len(shown) == 4
    assert all(f"{FIRE}:success" in one for one in shown)
    for text in (*shown, caplog.text, repr(desk.reports)):
        assert SECRET not in text


def test_an_alert_is_an_error_in_the_log_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Whether or not there is a mail server."""
    desk.send(parcel(About.ALERT, failures=3, failing_since=parcel().due_at))
    desk.until("failed")
    said = [one.getMessage() for one in caplog.records if "was disabled" in one.getMessage()]
    assert said == [
        "nightly was disabled after 3 failures in a row since 2026-05-01T09:00:00+00:00; resume it with: "
        "celery -A shop parrot resume nightly"
    ]


@pytest.mark.parametrize("payload", [{}, {"parcel": {}}, {"parcel": {"id": SECRET}, "callbacks": [1]}])
def test_a_payload_that_cannot_be_read_is_dropped(
    desk: Desk, payload: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With an error that quotes nothing of it."""
    desk.app.tasks[TASK].apply_async((), payload)
    wait_until(lambda: "cannot be read and is dropped" in caplog.text, "the error")
    assert SECRET not in caplog.text


def test_a_message_that_comes_again_is_a_try_that_failed(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    """Its worker died of it, or near it: the next message of the parcel delivers."""
    put = Channel.basic_publish

    def handed_out_before(self: Any, message: Any, exchange: str, routing_key: str, **more: Any) -> Any:
        if not once:
            once.append(True)
            message["properties"]["delivery_info"]["redelivered"] = True
        return put(self, message, exchange, routing_key, **more)

    once: list[bool] = []
    monkeypatch.setattr(Channel, "basic_publish", handed_out_before)
    desk.send(callbacks=({"type": "task", "task": "app.after"},))
    desk.until("delivered")
    assert [str(one.status) for one in desk.reports] == ["retrying", "delivered"]
    wait_until(lambda: desk.after, "the task that is told")
    assert len(desk.after) == 1


def test_it_is_acknowledged_when_it_is_over(desk: Desk) -> None:
    """So that a worker that dies delivers again; its result is nobody's."""
    task = desk.app.tasks[TASK]
    assert (task.acks_late, task.reject_on_worker_lost, task.ignore_result) == (True, True, True)


def test_a_coordinator_without_deliveries_is_told_nothing() -> None:
    """And is attached once, whatever comes."""

    class Plain:
        attached = 0

        def attach(self) -> None:
            self.attached += 1

    plain: Any = Plain()
    reporter = Reporter(lambda: plain)
    for _ in range(2):
        reporter(DeliveryReport(parcel_id="p", fire_id="f", key=parcel().key, about=About.SUCCESS, status="delivered"))  # type: ignore[arg-type]
    assert plain.attached == 1


def test_a_task_that_schedules_may_not_call(desk: Desk, port: int) -> None:
    """It is given up at once, with the reason; headers of its options name no other task."""
    register(desk.app, DeliverySettings(), desk.report, SystemClock(), allowed=AllowedTasks(("app.after",)))
    try:
        desk.send(
            callbacks=(
                {"type": "task", "task": "app.other"},
                {"type": "task", "task": "app.after", "options": {"headers": {"task": "app.other"}}},
            )
        )
        last = desk.until("partial")
    finally:
        desk.register()
    assert [one.status for one in last.callbacks] == ["failed", "delivered"]
    assert last.callbacks[0].error == "the task 'app.other' is not in parrot_allowed_tasks of this worker"
    wait_until(lambda: desk.after, "the task after it to run")
