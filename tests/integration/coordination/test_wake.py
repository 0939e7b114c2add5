"""The wake channel over pub/sub, and the one in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from celery_parrot.coordination.memory import MemoryWake
from celery_parrot.coordination.redis import RedisWake
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Limit, LimitRequest, WakeChannel
from tests.integration.coordination.helpers import NAME, connect, scene_of
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic, pause, wait_until


def ready(wake: RedisWake) -> None:
    """Subscribed, and nothing kept."""
    wait_until(lambda: wake.wait(0.1), "the subscription", 5)
    assert not wake.wait(0.01)


def woken_from_outside(listener: WakeChannel, speaker: WakeChannel) -> None:
    timer = threading.Timer(0.1, speaker.wake)
    timer.start()
    start = monotonic()
    assert listener.wait(5)
    assert monotonic() - start < 2
    timer.join()


def test_a_waiting_beat_is_woken(redis_url: str) -> None:
    listener, speaker = RedisWake(redis_url, NAME), RedisWake(redis_url, NAME)
    ready(listener)
    woken_from_outside(listener, speaker)
    start = monotonic()
    assert not listener.wait(0.3)
    assert 0.2 < monotonic() - start < 1
    listener.close()
    speaker.close()


def test_a_turn_that_is_handed_over_wakes(redis_url: str) -> None:
    """By the release itself, once; one that names nobody wakes nobody."""
    listener, coordinator = RedisWake(redis_url, NAME), connect(redis_url)
    scene = scene_of(coordinator)
    scene.register()
    scene.commit(1, 2, 3)
    ready(listener)
    asked = [LimitRequest(hold=scene.hold(n), limits=(Limit("group:gpu"),)) for n in (1, 2)]
    assert [reply.grant for reply in coordinator.request(asked)] == ["granted", "waiting"]
    for n in (3, 1):
        scene.start(n, f"t{n}")
    scene.finish(3, "t3")
    assert not listener.wait(0.2)
    assert scene.finish(1, "t1").named == (scene.key(2),)
    assert listener.wait(2)
    assert not listener.wait(0.1)
    listener.close()
    coordinator.close()


def test_a_wake_up_between_two_waits_is_kept_and_many_are_one(redis_url: str) -> None:
    listener, speaker = RedisWake(redis_url, NAME), RedisWake(redis_url, NAME)
    ready(listener)
    for _ in range(20):
        speaker.wake()
    pause(0.2)
    assert listener.wait(0)
    assert not listener.wait(0)
    listener.close()
    speaker.close()


def test_names_do_not_wake_each_other(redis_url: str) -> None:
    listener, foreign = RedisWake(redis_url, NAME), RedisWake(redis_url, Namespace("foreign"))
    ready(listener)
    foreign.wake()
    assert not listener.wait(0.2)
    listener.close()
    foreign.close()


def test_it_survives_an_outage_and_wakes_when_it_is_back(private_redis: PrivateRedis) -> None:
    listener, speaker = RedisWake(private_redis.url(), NAME), RedisWake(private_redis.url(), NAME)
    ready(listener)
    private_redis.kill()
    start = monotonic()
    for _ in range(4):
        assert not listener.wait(0.2)
    assert 0.7 < monotonic() - start < 3
    speaker.wake()  # raises nothing
    private_redis.start()
    wait_until(lambda: listener.wait(0.1), "the listener to be back", 5)  # it may have missed something
    listener.wait(0.05)

    def woken() -> bool:
        speaker.wake()
        return listener.wait(0.2)

    wait_until(woken, "a wake-up", 5)
    listener.close()
    speaker.close()


def test_a_cut_connection_counts_as_a_wake_up_once_it_is_back(
    private_redis: PrivateRedis, make_proxy: Callable[..., TcpProxy]
) -> None:
    proxy = make_proxy(private_redis.host, private_redis.port)
    listener = RedisWake(proxy.url("redis://{host}:{port}/0"), NAME)
    ready(listener)
    proxy.cut()
    assert not listener.wait(0.1)
    proxy.restore()
    wait_until(lambda: listener.wait(0.1), "the listener to be back", 5)
    listener.close()


def test_close_ends_a_wait(redis_url: str) -> None:
    wake = RedisWake(redis_url, NAME)
    ready(wake)
    waiter = threading.Thread(target=wake.wait, args=(30,))
    waiter.start()
    pause(0.1)
    wake.close()
    waiter.join(3)
    assert not waiter.is_alive()


def test_credentials_are_not_shown() -> None:
    wake = RedisWake("rediss://user:secret@host/0?password=hidden", NAME)
    assert "secret" not in repr(wake)
    assert "hidden" not in repr(wake)


def test_in_memory() -> None:
    first = MemoryWake()
    second = first.listener()
    woken_from_outside(first, second)
    assert second.wait(0)
    assert not first.wait(0.01)
    first.wake()
    first.wake()
    assert first.wait(0)
    assert not first.wait(0)
    second.close()
    first.close()
