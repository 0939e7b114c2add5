"""What this package sends is, byte for byte, what ``apply_async`` sends, ids, times and headers of our own apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from celery import Celery, signals
from celery.canvas import Signature
from kombu import Exchange, Queue

from celery_parrot.clock import SystemClock
from celery_parrot.protocols import Message, SendStatus
from celery_parrot.runtime.sender import CelerySender
from celery_parrot.runtime.templates import Templates
from tests.support.rabbit import own_vhost
from tests.support.waiting import monotonic

TASKS = ("t.local", "t.bound", "t.remote")
HEADERS = {"parrot": {"fire_id": "f"}, "periodic_task_name": "n", "celery_beat_task": True, "theirs": [1, {"a": None}]}
ARGUMENTS: list[tuple[list[Any], dict[str, Any]]] = [
    ([], {}),
    ([1], {}),
    (["é", 2.5, None, True], {"k": [1, {"deep": [[[[1]]]]}]}),
    (["x" * 3000], {"long": "y" * 2000}),
    ([], {"only": "keywords"}),
]
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "queue": {"queue": "other"},
    "priority": {"priority": 7},
    "pickle": {"serializer": "pickle"},
    "yaml": {"serializer": "yaml"},
    "zlib": {"compression": "zlib"},
    "bzip2": {"compression": "bzip2", "serializer": "pickle"},
    "limits": {"time_limit": 60, "soft_time_limit": 50.5, "shadow": "nickname"},
    "limit as a float": {"time_limit": 60.0},
    "exchange": {"exchange": "topics", "routing_key": "a.b"},
    "transient": {"delivery_mode": 1},
    "reply": {"reply_to": "somebody", "root_id": "the-root", "parent_id": "the-parent"},
    "eta": {"eta": datetime(2031, 5, 1, tzinfo=UTC)},
    "link": {"link": Signature("t.next", args=(1,))},
    "ignored": {"ignore_result": True},
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "routes": {"task_routes": {"t.*": {"queue": "routed", "priority": 3}}},
    "router": {"task_routes": [lambda name, args, kwargs, options, task=None, **_: {"queue": f"by{len(args)}"}]},
    "conf": {"task_serializer": "pickle", "task_compression": "gzip", "task_default_delivery_mode": 1},
    "protocol 1": {"task_protocol": 1},
}


def app_of(broker: str, settings: Mapping[str, Any]) -> Celery:
    app = Celery("test", broker=broker, set_as_current=False)
    app.conf.update({"task_default_queue": "default", **settings})

    @app.task(shared=False, name="t.local")
    def local(*args: Any, **kwargs: Any) -> None: ...

    @app.task(shared=False, name="t.bound", bind=True, ignore_result=True)
    def bound(self: Any, *args: Any, **kwargs: Any) -> None: ...

    app.finalize()
    return app


def messages() -> list[Message]:
    """Each combination several times, so that templates are made, proven and used."""
    found: list[Message] = []
    for task in TASKS:
        for args, kwargs in ARGUMENTS:
            for options in OPTIONS.values():
                one = f"id{len(found)}"
                found.append(
                    Message(task=task, task_id=one, args=tuple(args), kwargs=kwargs, options=options, headers=HEADERS)
                )
    return found


def reference(app: Celery, message: Message) -> None:
    """As anybody sends it."""
    given: dict[str, Any] = {"task_id": message.task_id, "headers": dict(message.headers), **message.options}
    task: Any = app.tasks.get(message.task)
    if task is not None:
        task.apply_async(list(message.args), dict(message.kwargs), **given)
    else:
        app.send_task(message.task, list(message.args), dict(message.kwargs), **given)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of messages that were told from a template."""
    ids: list[str] = []
    tell = Templates._told

    def noted(self: Templates, known: Any, message: Message) -> Any:
        ids.append(message.task_id)
        return tell(self, known, message)

    monkeypatch.setattr(Templates, "_told", noted)
    return ids


def send(app: Celery, some: list[Message]) -> None:
    sender = CelerySender(app, SystemClock())
    results = sender.send(some, monotonic() + 60)
    sender.close()
    assert {result.status for result in results} == {SendStatus.SENT}


# --- Redis ---


def in_redis(client: redis.Redis) -> dict[str, str]:
    """The text of each message without its random delivery tag, by queue and task id; the server is empty then."""
    found: dict[str, str] = {}
    for key in client.scan_iter(_type="list"):
        for text in client.lrange(key, 0, -1):
            body = json.loads(text)
            body["properties"].pop("delivery_tag")
            found[f"{key} {body['properties']['correlation_id']}"] = json.dumps(body)
    client.flushdb()
    return found


@pytest.mark.parametrize("settings", SETTINGS)
def test_over_redis(settings: str, redis_url: str, redis_client: redis.Redis, told: list[str]) -> None:
    app, some = app_of(redis_url, SETTINGS[settings]), messages()
    with app.connection_for_write() as connection:
        Queue("bound", Exchange("topics", "direct"), routing_key="a.b").bind(connection.channel()).declare()
    binding = redis_client.smembers("_kombu.binding.topics")
    for message in some:
        reference(app, message)
    expected = in_redis(redis_client)
    assert len(expected) == len(some)
    redis_client.sadd("_kombu.binding.topics", *binding)
    send(app, some)
    found = in_redis(redis_client)
    for key, text in expected.items():
        assert found.pop(key) == text
    assert not found
    by_user = settings in ("router", "protocol 1")
    assert (len(told) > len(some) / 2) is not by_user, "templates were to be used where nothing forbids it"


def test_whoever_listens_hears_of_each_message_once_it_is_there(redis_url: str, redis_client: redis.Redis) -> None:
    """Tracing tools add headers before a message is published and end their spans after."""
    app, heard = app_of(redis_url, {}), list[tuple[str, int]]()

    def before(headers: dict[str, Any], **_: Any) -> None:
        headers["traceparent"] = f"trace of {headers['id']}"

    def after(headers: Mapping[str, Any], **_: Any) -> None:
        length: Any = redis_client.llen("default")
        heard.append((headers["traceparent"], length))

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    try:
        send(app, [Message(task="t.remote", task_id=f"m{number}") for number in range(3)])
    finally:
        signals.before_task_publish.disconnect(before)
        signals.after_task_publish.disconnect(after)
    assert heard == [(f"trace of m{number}", number + 1) for number in range(3)]
    assert all("traceparent" in json.loads(text)["headers"] for text in redis_client.lrange("default", 0, -1))


def test_a_function_that_somebody_put_in_celerys_place_is_called(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some tools replace ``apply_async`` instead of listening."""
    app, called = app_of(redis_url, {}), list[str]()
    kind = type(app.tasks["t.local"])
    original: Callable[..., Any] = kind.apply_async

    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        called.append(kwargs["task_id"])
        return original(self, *args, **kwargs)

    some = [Message(task="t.local", task_id=f"m{number}") for number in range(5)]
    monkeypatch.setattr(kind, "apply_async", traced)
    send(app, some)
    assert called == [message.task_id for message in some]


def test_arguments_that_the_task_does_not_take_are_refused_from_a_template_too(redis_url: str) -> None:
    app = app_of(redis_url, {})

    @app.task(shared=False, name="t.strict")
    def strict(a: int) -> None: ...

    given: list[tuple[Any, ...]] = [(1,), (2,), (3,), (1, 2), (4,)]
    some = [Message(task="t.strict", task_id=f"m{number}", args=args) for number, args in enumerate(given)]
    sender = CelerySender(app, SystemClock())
    results = sender.send(some, monotonic() + 60)
    sender.close()
    assert [str(result.status) for result in results] == ["sent", "sent", "sent", "broken", "sent"]


def test_a_task_that_is_changed_or_registered_anew_is_sent_as_it_is_now(
    redis_url: str, redis_client: redis.Redis, told: list[str]
) -> None:
    app = app_of(redis_url, {})
    sender = CelerySender(app, SystemClock())
    some = [Message(task="t.local", task_id=f"m{number}") for number in range(3)]

    def ignoring() -> list[bool]:
        told.clear()
        assert {result.status for result in sender.send(some, monotonic() + 60)} == {SendStatus.SENT}
        assert told[-1] == "m2", "nothing was told from a template"
        return [json.loads(text)["headers"]["ignore_result"] for text in in_redis(redis_client).values()]

    assert ignoring() == [False] * 3
    app.tasks["t.local"].ignore_result = True
    assert ignoring() == [True] * 3
    app.tasks.unregister("t.local")

    @app.task(shared=False, name="t.local")
    def local(one: int) -> None: ...

    assert {result.status for result in sender.send(some, monotonic() + 60)} == {SendStatus.BROKEN}
    sender.close()


def test_a_header_in_the_place_of_celerys_leaves_the_messages_without_it_alone(
    redis_url: str, redis_client: redis.Redis
) -> None:
    app = app_of(redis_url, {})
    headers: list[dict[str, Any]] = [{"stamps": {"of": "theirs"}}, {"stamps": {"of": "theirs"}}, {}, {}, {}]
    send(app, [Message(task="t.local", task_id=f"m{number}", headers=given) for number, given in enumerate(headers)])
    texts: Any = redis_client.lrange("default", 0, -1)
    stamps = {body["headers"]["id"]: body["headers"]["stamps"] for body in map(json.loads, texts)}
    assert stamps == {f"m{number}": given.get("stamps", {}) for number, given in enumerate(headers)}


# --- RabbitMQ ---


@pytest.fixture(scope="module")
def rabbit_url() -> Iterator[str]:
    with own_vhost() as url:
        yield url


def in_rabbit(app: Celery, queues: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with app.connection_for_read() as connection:
        channel: Any = connection.channel()
        for queue in queues:
            while (raw := channel.basic_get(queue, no_ack=True)) is not None:
                info = {key: raw.delivery_info[key] for key in ("exchange", "routing_key")}
                found[f"{queue} {raw.properties['correlation_id']}"] = (raw.body, raw.properties, info)
    return found


def test_over_rabbitmq(rabbit_url: str, told: list[str]) -> None:
    app = app_of(rabbit_url, {})
    some = [message for message in messages() if message.task == "t.local"]
    queues = ("default", "other", "bound")
    with app.connection_for_write() as connection:
        Queue("bound", Exchange("topics", "direct"), routing_key="a.b").bind(connection.channel()).declare()
    for message in some:
        reference(app, message)
    expected = in_rabbit(app, queues)
    assert len(expected) == len(some)
    send(app, some)
    assert in_rabbit(app, queues) == expected
    assert len(told) > len(some) / 2
