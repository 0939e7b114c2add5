"""The sender over kombu's in-memory broker: everything ``apply_async`` does to a message, and what is broken."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery, signals
from kombu import Queue

from celery_parrot.clock import SystemClock
from celery_parrot.protocols import Message, SendResult, SendStatus
from celery_parrot.runtime.sender import CelerySender
from tests.support.services import unique
from tests.support.waiting import monotonic

NEVER = float("inf")


class Broker:
    """An app, its sender, and what arrived."""

    def __init__(self, **settings: Any) -> None:
        self.prefix = unique()
        self.app = Celery("test", broker="memory://", set_as_current=False)
        self.app.conf.update({"task_default_queue": self.queue("default"), **settings})
        self.sender = CelerySender(self.app, SystemClock())

    def queue(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def send(self, *messages: Message, until: float = NEVER) -> list[SendResult]:
        return list(self.sender.send(messages, until))

    def one(self, queue: str = "default", **fields: Any) -> Any:
        """Send one message and take it from its queue."""
        fields = {"task": "t.remote", "task_id": unique(), **fields}
        (result,) = self.send(Message(**fields))
        assert result == SendResult(SendStatus.SENT)
        return self.take(queue)

    def take(self, queue: str = "default") -> Any:
        with self.app.connection_for_read() as connection:
            simple = connection.SimpleQueue(self.queue(queue))
            message = simple.get(block=False)
            message.ack()
            simple.close()
            return message

    def size(self, queue: str = "default") -> int:
        with self.app.connection_for_read() as connection:
            simple = connection.SimpleQueue(self.queue(queue))
            try:
                return int(simple.qsize())
            finally:
                simple.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.sender.close()


# --- what reaches the message ---


def test_id_arguments_and_headers(broker: Broker) -> None:
    message = broker.one(task_id="the-id", args=(1, "x"), kwargs={"k": 2}, headers={"parrot": {"name": "n"}, "mine": 1})
    headers = message.headers
    assert (headers["id"], headers["task"], headers["root_id"]) == ("the-id", "t.remote", "the-id")
    assert (headers["parrot"], headers["mine"]) == ({"name": "n"}, 1)
    assert message.payload[:2] == [[1, "x"], {"k": 2}]
    assert message.properties["correlation_id"] == "the-id"


def test_queue_priority_serializer_compression_and_limits(broker: Broker) -> None:
    options = {
        "queue": broker.queue("other"), "priority": 7, "serializer": "yaml", "compression": "zlib",
        "time_limit": 60, "soft_time_limit": 50, "shadow": "nickname",
    }  # fmt: skip
    message = broker.one("other", options=options)
    assert message.properties["priority"] == 7
    assert message.content_type == "application/x-yaml"
    assert message.headers["compression"] == "application/x-gzip"
    assert message.headers["timelimit"] == [60, 50]
    assert message.headers["shadow"] == "nickname"


def test_a_relative_expiry_and_countdown_count_from_now(broker: Broker) -> None:
    before = datetime.fromtimestamp(0, UTC)
    message = broker.one(options={"expires": 60, "countdown": 10})
    expires = datetime.fromisoformat(message.headers["expires"])
    eta = datetime.fromisoformat(message.headers["eta"])
    assert before < eta < expires
    assert expires - eta == pytest.approx(timedelta(seconds=50), abs=timedelta(seconds=1))
    assert message.properties["expiration"] == "60000"


def test_an_absolute_eta_and_links(broker: Broker) -> None:
    eta = datetime(2031, 5, 1, tzinfo=UTC)
    link = broker.app.signature("t.next", args=(1,))
    message = broker.one(options={"eta": eta, "link": link, "link_error": [link]})
    assert message.headers["eta"] == eta.isoformat()
    embed = message.payload[2]
    assert embed["callbacks"][0]["task"] == "t.next"
    assert embed["errbacks"][0]["task"] == "t.next"


@pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")  # from 5.7 on, for such task attributes
def test_the_options_of_a_registered_task_apply_and_those_of_the_schedule_win(broker: Broker) -> None:
    @broker.app.task(
        shared=False, name="t.local", priority=3, expires=90, queue=broker.queue("mine"), ignore_result=True
    )
    def local() -> None: ...

    message = broker.one("mine", task="t.local")
    assert (message.properties["priority"], message.properties["expiration"]) == (3, "90000")
    assert message.headers["ignore_result"] is True
    message = broker.one("other", task="t.local", options={"queue": broker.queue("other"), "priority": 9})
    assert message.properties["priority"] == 9


@pytest.mark.parametrize(
    ("task", "options", "wanted"),
    [
        ("t.local", {}, False),
        ("t.local", {"ignore_result": True}, True),
        ("t.remote", {}, None),
        ("t.remote", {"ignore_result": True}, True),
        ("t.remote", {"ignore_result": False}, False),
    ],
)
def test_the_result_is_ignored_only_where_the_user_says_so(
    broker: Broker, task: str, options: dict[str, Any], wanted: bool | None
) -> None:
    @broker.app.task(shared=False, name="t.local")
    def local() -> None: ...

    assert broker.one(task=task, options=options).headers["ignore_result"] is wanted


def test_the_result_backend_is_not_asked_for_anything() -> None:
    """Nobody in a beat waits for a result; a backend out of reach must not hold it."""
    broker = Broker(result_backend="redis://127.0.0.1:1/0", redis_socket_connect_timeout=30)
    start = monotonic()
    message = broker.one()
    assert monotonic() - start < 2
    assert message.properties["reply_to"]
    broker.sender.close()


def test_routes_of_the_app_are_honoured() -> None:
    broker = Broker()
    broker.app.conf.task_routes = {"t.*": {"queue": broker.queue("routed")}}
    broker.app.conf.task_queues = [Queue(broker.queue("routed")), Queue(broker.queue("default"))]
    assert broker.one("routed").headers["task"] == "t.remote"
    broker.sender.close()


def test_signals_before_and_after(broker: Broker) -> None:
    seen: list[tuple[str, str, object]] = []

    def before(sender: str, headers: dict[str, Any], **_: object) -> None:
        headers["traced"] = True
        seen.append(("before", sender, headers["ignore_result"]))

    def after(sender: str, headers: dict[str, Any], **_: object) -> None:
        seen.append(("after", sender, headers["id"]))

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    try:
        message = broker.one(task_id="i")
    finally:
        signals.before_task_publish.disconnect(before)
        signals.after_task_publish.disconnect(after)
    assert seen == [("before", "t.remote", None), ("after", "t.remote", "i")]
    assert message.headers["traced"] is True


def test_task_sent_events_are_published() -> None:
    broker = Broker(task_send_sent_event=True)
    (result,) = broker.send(Message(task="t.remote", task_id="i"))
    assert result.status is SendStatus.SENT
    assert broker.size() == 1
    broker.sender.close()


def test_a_failing_task_sent_event_does_not_unsend_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(task_send_sent_event=True)

    def publish(*_: object, **__: object) -> None:
        raise OSError("connection lost")

    assert broker.app.amqp._event_dispatcher is not None  # type: ignore[attr-defined]  # makes it

    monkeypatch.setattr(vars(broker.app.amqp)["_event_dispatcher"], "publish", publish)
    (result,) = broker.send(Message(task="t.remote", task_id="i"))
    assert result.status is SendStatus.SENT
    assert broker.size() == 1
    broker.sender.close()


@pytest.mark.parametrize("option", ["task_id", "producer", "connection", "retry", "publisher"])
def test_options_that_the_fire_decides_have_no_effect(broker: Broker, option: str) -> None:
    assert broker.one(task_id="ours", options={option: object()}).headers["id"] == "ours"


def test_options_are_not_changed(broker: Broker) -> None:
    """A schedule's options are sent again and again."""
    options: dict[str, Any] = {"expires": 60, "headers": {"a": 1}, "priority": 3}
    headers = {"a": 1}
    broker.one(options=options, headers=headers)
    assert options == {"expires": 60, "headers": {"a": 1}, "priority": 3}
    assert headers == {"a": 1}


# --- what cannot be sent ---


def test_a_message_that_cannot_be_sent_is_broken_and_the_others_go_on(broker: Broker) -> None:
    @broker.app.task(shared=False, name="t.local")
    def local(x: int) -> None: ...

    results = broker.send(
        Message(task="t.remote", task_id="1", args=(object(),)),
        Message(task="t.local", task_id="2"),
        Message(task="t.remote", task_id="3", options={"serializer": "nope"}),
        Message(task="t.remote", task_id="4", options={"expires": "soon"}),
        Message(task="t.remote", task_id="5"),
    )
    assert [str(result.status) for result in results] == ["broken", "broken", "broken", "broken", "sent"]
    assert "cannot be serialised" in results[0].error
    assert "missing 1 required positional argument" in results[1].error
    assert broker.size() == 1


def test_no_error_shows_an_argument(broker: Broker) -> None:
    class Secret:
        def __repr__(self) -> str:
            return "s3cret"

    for serializer in ("json", "yaml", "pickle"):
        secret: Any = Secret() if serializer != "pickle" else (lambda: "s3cret")
        (result,) = broker.send(
            Message(task="t", task_id="1", args=(secret,), kwargs={"k": secret}, options={"serializer": serializer})
        )
        assert result.status is SendStatus.BROKEN
        assert "s3cret" not in result.error


def test_an_unknown_queue_is_broken_where_queues_must_exist() -> None:
    broker = Broker(task_create_missing_queues=False)
    first, second = broker.send(
        Message(task="t.remote", task_id="1", options={"queue": "nowhere"}), Message(task="t.remote", task_id="2")
    )
    assert first.status is SendStatus.BROKEN
    assert "nowhere" in first.error
    assert second.status is SendStatus.SENT
    broker.sender.close()


# --- time ---


def test_nothing_is_begun_after_until(broker: Broker) -> None:
    messages = [Message(task="t.remote", task_id=str(n)) for n in range(3)]
    assert {str(result.status) for result in broker.send(*messages, until=0.0)} == {"not_tried"}
    assert broker.size() == 0
    assert broker.send() == []


def test_a_sender_may_be_used_again_after_close(broker: Broker) -> None:
    broker.one()
    broker.sender.close()
    broker.sender.close()
    assert broker.one().headers["task"] == "t.remote"


def test_the_socket_timeout_of_the_process_is_left_alone(broker: Broker) -> None:
    import socket

    before = socket.getdefaulttimeout()
    broker.one()
    broker.sender.close()
    assert socket.getdefaulttimeout() == before
