"""Servers that die, freeze or lose an answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.fire import Status
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import Memory
from celery_parrot.testing.conformance import TIMING
from tests.integration.coordination.helpers import answers_again, connect, fails_within, scene_of
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic, pause, wait_until


def test_a_killed_server_is_unreachable_at_once(private_redis: PrivateRedis) -> None:
    coordinator = connect(private_redis.url())
    scene = scene_of(coordinator)
    scene.register()
    private_redis.kill()
    error = fails_within(1, lambda: scene.commit(1))
    assert str(private_redis.port) in str(error)
    assert error.__cause__ is not None
    private_redis.start()
    says_it_forgot(coordinator.beats)
    assert coordinator.remember(Memory()).quiet
    coordinator.close()


def says_it_forgot(call: Callable[[], object]) -> None:
    """Once ``call`` is answered again, the answer is MemoryLost."""

    def lost() -> bool:
        try:
            call()
        except MemoryLost:
            return True
        return False

    wait_until(lost, "the loss of memory to be noticed", 5)


def test_a_durable_server_that_restarts_is_another_server(durable_redis: PrivateRedis) -> None:
    coordinator, other = connect(durable_redis.url()), connect(durable_redis.url())
    scene = scene_of(coordinator)
    other.attach()
    scene.pending()
    durable_redis.kill()
    durable_redis.start()
    says_it_forgot(coordinator.beats)
    reading = coordinator.remember(Memory())
    assert reading.quiet
    says_it_forgot(other.beats)
    assert other.remember(Memory()).quiet_until == reading.quiet_until
    assert scene.status() is Status.PENDING
    assert [fire.key for fire in scene.sweep("b2").entries] == [scene.key(1)]
    for client in (coordinator, other):
        client.close()


def test_a_frozen_server_is_noticed_within_the_timeout_and_then_fails_fast(private_redis: PrivateRedis) -> None:
    coordinator = connect(private_redis.url())
    scene = scene_of(coordinator)
    scene.register()
    private_redis.pause()
    try:
        fails_within(3, coordinator.beats)
        fails_within(0.05, coordinator.beats)  # not another two seconds
    finally:
        private_redis.resume()
    answers_again(coordinator.beats)
    assert scene.commit(1).verdict is Verdict.COMMITTED
    coordinator.close()


def test_an_outage_costs_a_tick_little(private_redis: PrivateRedis) -> None:
    coordinator = connect(private_redis.url())
    coordinator.attach()
    private_redis.kill()
    start, calls = monotonic(), 0
    while monotonic() - start < 1.5:
        fails_within(0.5, coordinator.beats)
        calls += 1
        pause(0.01)
    assert calls > 50
    private_redis.start()
    start = monotonic()
    says_it_forgot(coordinator.beats)
    assert monotonic() - start < 2  # the pause between tries is a second at most
    coordinator.close()


def test_a_lost_answer_is_not_repeated_behind_the_callers_back(
    private_redis: PrivateRedis, make_proxy: Callable[..., TcpProxy]
) -> None:
    proxy = make_proxy(private_redis.host, private_redis.port)
    coordinator, witness = connect(proxy.url("redis://{host}:{port}/0")), connect(private_redis.url())
    scene = scene_of(coordinator)
    scene.register()
    scene.commit(1)  # the server knows the script from here on
    assert coordinator.confirm([scene.hold(1)]) == [True]
    proxy.stall("replies")
    fails_within(3, lambda: scene.commit(2, mark=1))
    assert [fire.owner for fire in witness.sweep(scene.beat("b2")).entries] == ["b1"]  # it was carried out
    proxy.restore()
    answers_again(coordinator.beats)
    assert scene.commit(2, mark=1).verdict is Verdict.MOVED
    pause(1.1)
    assert scene.sweep().due == (scene.hold(2),)
    coordinator.close()
    witness.close()


def test_nobody_is_taken_over_because_of_an_outage(private_redis: PrivateRedis) -> None:
    coordinator, other = connect(private_redis.url()), connect(private_redis.url())
    scene = scene_of(coordinator)
    scene.sweep("b1")
    hold = scene.pending()
    private_redis.pause()
    pause(TIMING.untouched + 0.5)
    private_redis.resume()
    answers_again(lambda: other.sweep(scene.beat("b2")))
    reply = other.sweep(scene.beat("b2"))
    assert not reply.reading.judging
    assert reply.due == ()
    assert other.take([hold], "b2") == [None]
    answers_again(coordinator.beats)
    assert coordinator.confirm([hold]) == [True]
    for client in (coordinator, other):
        client.close()


def test_a_server_without_memory_left_is_unreachable_not_a_crash(private_redis: PrivateRedis) -> None:
    with private_redis.client() as client:
        client.config_set("maxmemory", "1")
    coordinator = connect(private_redis.url())
    with pytest.raises(Unreachable, match="OutOfMemory"):
        coordinator.attach()
    coordinator.close()


def test_nobody_there() -> None:
    coordinator = connect("redis://user:secret@127.0.0.1:1/0")
    error = fails_within(1, coordinator.attach)
    assert "secret" not in f"{error!s} {error.__cause__!s} {coordinator!r}"
    assert "127.0.0.1:1" in repr(coordinator)
