"""The sender and real brokers: bounded whatever they do, back as soon as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from celery import Celery
from kombu import Queue
from kombu.transport import redis as redis_transport

from celery_parrot.clock import SystemClock
from celery_parrot.protocols import Message, SendStatus
from celery_parrot.runtime.bounded import BoundedConnection
from celery_parrot.runtime.sender import CelerySender
from tests.integration.beat.conftest import Mailbox
from tests.support.proxy import TcpProxy
from tests.support.rabbit import own_vhost
from tests.support.waiting import monotonic, wait_until

TOGETHER = {"redis": 100, "amqp": 1}
"""Messages that share their fate: those of one batch."""

LIMIT = 3.0
"""Seconds one publish may take, by contract."""


class Sending:
    """A sender whose broker is behind a network that can be broken."""

    def __init__(self, url: str, proxy: TcpProxy, queue: str, **settings: Any) -> None:
        parts = urlsplit(url)
        user = f"{parts.username}:{parts.password}@" if parts.username else ""
        broker = f"{parts.scheme}://{user}{proxy.host}:{proxy.port}{parts.path}"
        self.app = Celery("test", broker=broker, set_as_current=False)
        self.app.conf.update({"task_default_queue": queue, **settings})
        self.app.finalize()
        self.sender = CelerySender(self.app, SystemClock())
        self.proxy, self.queue = proxy, queue
        self.together = TOGETHER["redis" if parts.scheme == "redis" else "amqp"]
        self.took = 0.0

    def send(self, *ids: str, **options: Any) -> list[str]:
        """Send a message each; the statuses."""
        start = monotonic()
        results = self.sender.send([Message(task="t", task_id=one, options=options) for one in ids], start + 60)
        self.took = monotonic() - start
        self.errors = [result.error for result in results]
        return [str(result.status) for result in results]

    def wait_until_sent(self, one: str, within: float) -> None:
        """The sender's own pauses between two tries are within the limit."""
        wait_until(lambda: self.send(one) == [SendStatus.SENT], f"{one} to be sent", within)


@pytest.fixture(scope="module")
def rabbit_url() -> Iterator[str]:
    """One virtual host for the whole module: making one takes seconds."""
    with own_vhost() as url:
        yield url


@pytest.fixture(params=["redis", "amqp"])
def sending(
    request: pytest.FixtureRequest, make_proxy: Callable[..., TcpProxy], queue_prefix: str
) -> Iterator[Sending]:
    url = request.getfixturevalue("redis_url" if request.param == "redis" else "rabbit_url")
    parts = urlsplit(url)
    made = Sending(url, make_proxy(parts.hostname, parts.port), f"{queue_prefix}sender")
    made.send("warm-up")  # connected, queue declared
    yield made
    made.proxy.delay = 0
    made.proxy.restore()
    made.sender.close()
    with made.app.connection_for_write() as connection:
        Queue(made.queue).bind(connection.channel()).delete()


def taken(sending: Sending, mailbox: Callable[[str], Mailbox], count: int) -> list[str]:
    mail = mailbox(sending.app.conf.broker_url)
    return [message.headers["id"] for message in mail.several(sending.queue, count)]


def test_one_connection_serves_every_message(sending: Sending, mailbox: Callable[[str], Mailbox]) -> None:
    accepted = sending.proxy.accepted
    ids = [f"m{n}" for n in range(50)]
    assert sending.send(*ids) == ["sent"] * 50
    assert sending.proxy.accepted == accepted
    assert taken(sending, mailbox, 51)[1:] == ids


@pytest.mark.parametrize("how", ["requests", "replies"])
def test_a_stalled_broker_costs_less_than_three_seconds(sending: Sending, how: Any) -> None:
    """Nothing passes, or the message arrives and its confirmation does not: failed or doubtful, the rest not tried."""
    sending.proxy.stall(how)
    doubtful = sending.together
    ids = [f"m{number}" for number in range(doubtful + 2)]
    assert sending.send(*ids) == ["failed"] * doubtful + ["not_tried"] * 2
    assert sending.took < LIMIT
    for _ in range(3):  # connecting hangs as well
        assert sending.send("a", "b") == ["failed", "not_tried"]
        assert sending.took < LIMIT
    sending.proxy.restore()
    sending.wait_until_sent("a", 3)


def test_a_broker_that_is_down_costs_nothing_and_is_found_again_within_a_second(sending: Sending) -> None:
    sending.proxy.cut()
    assert sending.send(*(f"m{number}" for number in range(sending.together + 1)))[-1] == "not_tried"
    start = monotonic()
    while monotonic() - start < 2:  # long enough for the pauses to have grown to their longest
        assert sending.send("a") == ["failed"]
        assert sending.took < 1
    sending.proxy.restore()
    sending.wait_until_sent("a", 1.5)


def test_a_connection_that_ended_while_idle_costs_no_message(
    sending: Sending, mailbox: Callable[[str], Mailbox]
) -> None:
    """The broker was restarted between two fires: noticed before publishing, not by failing to."""
    sending.proxy.cut()
    sending.proxy.restore()
    assert sending.send("a", "b") == ["sent", "sent"]
    assert taken(sending, mailbox, 3) == ["warm-up", "a", "b"]


def test_only_what_was_flushed_is_sent_and_the_rest_not_tried(
    make_proxy: Callable[..., TcpProxy], redis_url: str, queue_prefix: str, mailbox: Callable[[str], Mailbox]
) -> None:
    """The broker is lost between two batches: the first is with it, the second in doubt, the third was never begun."""
    parts = urlsplit(redis_url)
    sending = Sending(redis_url, make_proxy(parts.hostname, parts.port), f"{queue_prefix}flush")
    flushed, kind = 0, getattr(redis_transport, "PublishBatch")  # noqa: B009 - unknown to the stubs
    flush = kind.flush

    def cut_before_the_second(batch: Any) -> None:
        nonlocal flushed
        flushed += bool(batch._buffered)
        if flushed == 2:
            sending.proxy.cut()
        flush(batch)

    sending.send("warm-up")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "flush", cut_before_the_second)
        ids = [f"m{number}" for number in range(250)]
        assert sending.send(*ids) == ["sent"] * 100 + ["failed"] * 100 + ["not_tried"] * 50
    sending.proxy.restore()
    assert taken(sending, mailbox, 101)[1:] == ids[:100]
    sending.sender.close()


def test_heavy_messages_are_not_all_in_doubt_together(
    make_proxy: Callable[..., TcpProxy], redis_url: str, queue_prefix: str, mailbox: Callable[[str], Mailbox]
) -> None:
    """A hundred of them might never get through in time, and those that did would be there again with each try."""
    parts = urlsplit(redis_url)
    sending = Sending(redis_url, make_proxy(parts.hostname, parts.port), f"{queue_prefix}heavy")
    sending.send("warm-up")
    sending.proxy.stall("replies")
    messages = [Message(task="t", task_id=f"m{number}", args=("x" * 100_000,)) for number in range(100)]
    results = sending.sender.send(messages, monotonic() + 60)
    assert [str(result.status) for result in results] == ["failed"] * 2 + ["not_tried"] * 98
    sending.proxy.restore()
    sending.wait_until_sent("last", 3)
    assert taken(sending, mailbox, 4) == ["warm-up", "m0", "m1", "last"]
    sending.sender.close()


def test_a_refused_message_of_a_batch_harms_no_other(
    redis_url: str, redis_client: redis.Redis, queue_prefix: str, mailbox: Callable[[str], Mailbox]
) -> None:
    """Its queue is no list: only it fails, though the answers of all come together. One that cannot be written, too."""
    app = Celery("test", broker=redis_url, set_as_current=False)
    app.conf.update(task_default_queue=f"{queue_prefix}good")
    app.finalize()
    sender = CelerySender(app, SystemClock())
    declared = [Message(task="t", task_id="first", options={"queue": f"{queue_prefix}bad"})]
    assert sender.send(declared, monotonic() + 60)[0].status is SendStatus.SENT
    redis_client.set(f"{queue_prefix}bad", "no list")
    queues = [f"{queue_prefix}{name}" for name in ("good", "bad", "good", "good")]
    args: list[tuple[Any, ...]] = [(), (), (object(),), ()]
    messages = [
        Message(task="t", task_id=f"m{number}", args=given, options={"queue": queue})
        for number, (queue, given) in enumerate(zip(queues, args, strict=True))
    ]
    results = sender.send(messages, monotonic() + 60)
    sender.close()
    assert [str(result.status) for result in results] == ["sent", "failed", "broken", "sent"]
    assert "WRONGTYPE" in results[1].error
    found = mailbox(redis_url).several(f"{queue_prefix}good", 2)
    assert [message.headers["id"] for message in found] == ["m0", "m3"]


def test_a_slow_broker_is_waited_for(sending: Sending) -> None:
    sending.proxy.delay = 0.2
    assert sending.send("a") == ["sent"]


def test_no_error_shows_the_password(sending: Sending) -> None:
    sending.proxy.cut()
    sending.send("a")
    assert "guest:guest" not in sending.errors[0]


def test_a_first_message_within_its_time_also_over_a_slow_network(sending: Sending) -> None:
    """Connecting and declaring take many round trips. No try takes longer than the limit, and one of them succeeds."""
    sending.sender.close()
    sending.proxy.delay = 0.1
    start = monotonic()
    while sending.send("a") != ["sent"]:
        assert sending.took < LIMIT
        assert monotonic() - start < 10
    assert sending.took < LIMIT


def test_a_network_that_is_too_slow_takes_no_longer_than_the_limit(sending: Sending) -> None:
    sending.sender.close()
    sending.proxy.delay = 0.6
    for _ in range(2):
        sending.send("a")
        assert sending.took < LIMIT


# --- AMQP ---


@pytest.fixture
def rabbit(rabbit_url: str, make_proxy: Callable[..., TcpProxy], queue_prefix: str) -> Iterator[Sending]:
    parts = urlsplit(rabbit_url)
    made = Sending(rabbit_url, make_proxy(parts.hostname, parts.port), f"{queue_prefix}amqp")
    yield made
    made.sender.close()


def test_amqp_is_always_confirmed(rabbit: Sending) -> None:
    assert rabbit.send("a") == ["sent"]
    channel: Any = rabbit.sender._broker.producer().channel
    assert isinstance(channel.connection, BoundedConnection)
    assert channel.connection.confirm_publish is True
    assert channel._confirm_selected is True


def test_a_queue_that_exists_with_other_arguments_breaks_its_own_message_only(rabbit: Sending) -> None:
    queue = f"{rabbit.queue}-other"
    with rabbit.app.connection_for_write() as connection:
        declared = Queue(queue, queue_arguments={"x-max-length": 5}).bind(connection.channel())
        declared.declare()
        results = rabbit.sender.send(
            [
                Message(task="t", task_id="1"),
                Message(task="t", task_id="2", options={"queue": queue}),
                Message(task="t", task_id="3"),
            ],
            monotonic() + 60,
        )
        declared.delete()
    assert [str(result.status) for result in results] == ["sent", "broken", "sent"]
    assert "PreconditionFailed" in results[1].error


def test_a_full_queue_fails_its_own_message_only(rabbit: Sending) -> None:
    """The broker is well: the others go on, and this one is tried again later."""
    queue = f"{rabbit.queue}-full"
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    rabbit.app.conf.task_queues = [Queue(queue, routing_key=queue, queue_arguments=arguments), Queue(rabbit.queue)]
    results = rabbit.sender.send(
        [
            Message(task="t", task_id="1", options={"queue": queue}),
            Message(task="t", task_id="2", options={"queue": queue}),
            Message(task="t", task_id="3", options={"queue": rabbit.queue}),
        ],
        monotonic() + 60,
    )
    assert [str(result.status) for result in results] == ["sent", "failed", "sent"]
    with rabbit.app.connection_for_write() as connection:
        Queue(queue).bind(connection.channel()).delete()


def test_the_next_of_several_brokers_is_tried(
    redis_url: str, make_proxy: Callable[..., TcpProxy], queue_prefix: str
) -> None:
    port = urlsplit(redis_url).port
    dead = make_proxy("127.0.0.1", port)
    dead.cut()
    sending = Sending(redis_url, dead, f"{queue_prefix}failover")
    sending.app.conf.update(broker_url=f"redis://127.0.0.1:{dead.port}/0;{redis_url}")
    assert sending.send("a") == ["failed"]
    sending.wait_until_sent("a", 2)
    sending.sender.close()
