"""The tests' own Redis servers: what each way of hurting them does, and the check for keys left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import redis

from tests.support.redis_keys import PERMANENT_KEYS, assert_no_leaks, leaked_keys
from tests.support.redis_server import PrivateRedis

pytestmark = pytest.mark.integration


def test_a_private_server_listens_on_loopback_only(private_redis: PrivateRedis) -> None:
    """Nothing outside this machine reaches a test server."""
    with private_redis.client() as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_kill_and_restart_lose_memory_and_keep_the_port(private_redis: PrivateRedis) -> None:
    """Clients find the restarted server under the same URL, empty."""
    url = private_redis.url()
    with private_redis.client() as client:
        client.set("a", 1)
    private_redis.kill()
    assert not private_redis.ping()
    private_redis.start()
    assert private_redis.url() == url
    with private_redis.client() as client:
        assert client.get("a") is None


def test_a_durable_server_keeps_what_it_acknowledged_over_a_kill(durable_redis: PrivateRedis) -> None:
    """SIGKILL right after a write loses nothing."""
    with durable_redis.client() as client:
        client.set("a", "1")
    with durable_redis.restart().client() as client:
        assert client.get("a") == "1"


def test_a_paused_server_accepts_and_never_answers(private_redis: PrivateRedis) -> None:
    """A pause looks like a partition: the client times out. After resume it answers again."""
    private_redis.pause()
    with private_redis.client(socket_timeout=0.2) as client, pytest.raises(redis.TimeoutError):
        client.ping()
    private_redis.resume()
    assert private_redis.ping()


def test_stop_ends_a_paused_server_too(private_redis: PrivateRedis) -> None:
    """Teardown never hangs on a server that a test left frozen."""
    private_redis.pause()
    private_redis.stop()
    assert not private_redis.running


def test_options_reach_the_server(make_redis: Callable[..., PrivateRedis]) -> None:
    """Two servers at once, each with its own settings."""
    small, plain = make_redis(options={"maxmemory": "2mb"}), make_redis()
    with small.client() as a, plain.client() as b:
        assert a.config_get("maxmemory") == {"maxmemory": "2097152"}
        assert b.config_get("maxmemory") == {"maxmemory": "0"}


def test_a_server_that_cannot_start_says_why(make_redis: Callable[..., PrivateRedis]) -> None:
    """The server's own log is the message."""
    with pytest.raises(AssertionError, match=r"(?s)ended at once.*nonsense"):
        make_redis(options={"nonsense": "yes"})


def test_each_test_finds_the_shared_server_empty(redis_client: redis.Redis, redis_server: PrivateRedis) -> None:
    """What an earlier test left in any database is gone."""
    assert redis_client.dbsize() == 0
    with redis_server.client(db=3) as other:
        other.set("left", "behind")
        assert other.dbsize() == 1


def test_a_key_without_ttl_is_a_leak_unless_listed(redis_client: redis.Redis) -> None:
    """A TTL, the permanent list, or a name outside our prefix: anything else is named."""
    redis_client.set("parrot:scheduler:x:fire:a:1", "sent", ex=60)
    redis_client.hset("parrot:scheduler:x:jobs", "a", "{}")
    redis_client.set("celery-task-meta-1", "theirs")
    assert leaked_keys(redis_client) == []
    redis_client.set("parrot:scheduler:x:fire:a:2", "sent")
    assert leaked_keys(redis_client) == ["parrot:scheduler:x:fire:a:2"]
    assert leaked_keys(redis_client, [*PERMANENT_KEYS, "fire:*"]) == []
    with pytest.raises(AssertionError, match="parrot:scheduler:x:fire:a:2"):
        assert_no_leaks(redis_client)
    redis_client.expire("parrot:scheduler:x:fire:a:2", 60)


@pytest.mark.keeps_keys("the subject of this test")
def test_a_marked_test_may_keep_keys(redis_client: redis.Redis) -> None:
    """The check after a test can be turned off, with a reason."""
    redis_client.set("parrot:left", "on purpose")


class TestOwnList:
    """A module or class may bring its own permanent list."""

    @pytest.fixture
    def permanent_keys(self) -> Sequence[str]:
        return ["only-here:*"]

    def test_the_overriding_list_counts(self, redis_client: redis.Redis) -> None:
        """The check after this test uses the list above."""
        redis_client.set("parrot:scheduler:x:only-here:1", "kept")
