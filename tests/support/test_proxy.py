"""The breakable network between a client and its server."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic, wait_until

pytestmark = pytest.mark.integration

Make = Callable[..., TcpProxy]


def client_of(proxy: TcpProxy, timeout: float = 0.3) -> redis.Redis:
    return redis.Redis(
        host=proxy.host,
        port=proxy.port,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )


def test_an_intact_network_carries_both_ways(make_proxy: Make, redis_server: PrivateRedis) -> None:
    """Also more than one buffer at a time."""
    with client_of(make_proxy(redis_server.host, redis_server.port), timeout=5) as client:
        big = b"x" * 1_000_000
        client.set("big", big)
        assert client.get("big") == big


def test_cut_resets_open_connections_and_refuses_new_ones(make_proxy: Make, redis_server: PrivateRedis) -> None:
    """As a crashed server; restore brings it back on the same port."""
    proxy = make_proxy(redis_server.host, redis_server.port)
    with client_of(proxy) as client:
        assert client.ping()
        proxy.cut()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((proxy.host, proxy.port), timeout=1)
        proxy.restore()
        assert client.ping()


def test_stall_keeps_connections_open_and_passes_nothing(make_proxy: Make, redis_server: PrivateRedis) -> None:
    """As a partition: the client times out, and what it sent arrives after the partition heals."""
    proxy = make_proxy(redis_server.host, redis_server.port)
    with client_of(proxy) as client, redis_server.client() as direct:
        assert client.ping()
        proxy.stall()
        with pytest.raises(redis.TimeoutError):
            client.set("late", 1)
        assert direct.get("late") is None
        proxy.restore()
        wait_until(lambda: direct.get("late"), "the held request to arrive", 5)
        assert client.ping()


def test_stalled_replies_let_the_request_through(make_proxy: Make, redis_server: PrivateRedis) -> None:
    """The way to lose a reply: the server acts, the caller never hears of it."""
    proxy = make_proxy(redis_server.host, redis_server.port)
    with client_of(proxy) as client, redis_server.client() as direct:
        assert client.ping()
        proxy.stall("replies")
        with pytest.raises(redis.TimeoutError):
            client.set("done", 1)
        assert direct.get("done") == "1"
        proxy.cut()
        proxy.restore()
        assert client.ping()


def test_delay_makes_every_answer_late(make_proxy: Make, redis_server: PrivateRedis) -> None:
    """Each way costs the delay once."""
    proxy = make_proxy(redis_server.host, redis_server.port)
    with client_of(proxy, timeout=5) as client:
        client.ping()
        proxy.delay = 0.1
        start = monotonic()
        client.ping()
        assert monotonic() - start >= 0.2


def test_a_dead_target_looks_dead(make_proxy: Make, private_redis: PrivateRedis) -> None:
    """The proxy does not pretend that the server is there."""
    proxy = make_proxy(private_redis.host, private_redis.port)
    private_redis.kill()
    with client_of(proxy) as client, pytest.raises(redis.ConnectionError):
        client.ping()
