"""Clients of servers that are found by asking others: a master behind Sentinel, the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from celery_parrot.clock import SystemClock

DEFAULTS: Final[Mapping[str, Any]] = {
    "socket_timeout": 2.0,  # an outage must be noticed before it is long
    "socket_connect_timeout": 2.0,
    "socket_keepalive": True,
    "health_check_interval": 15,
    "protocol": 2,
}

Node = tuple[str, int]

#: Seconds between two looks at who is master, at least; and at most, while no sentinel answers.
_LOOK: Final = 1.0
_SELDOM: Final = 60.0


def no_retry() -> Retry:
    """The answer of a call that failed may only be lost: the caller decides, never the client."""
    return Retry(NoBackoff(), 0)


@dataclass(frozen=True, slots=True)
class SentinelMaster:
    """Makes clients of the master that Sentinel knows by a name. Each new connection asks who that is, and once a
    second one that is in use does.

    :ivar nodes: the sentinels. :ivar master: what they call the group.
    :ivar options: arguments of the master's client; those of the sentinels' are in ``sentinel_options``.
    """

    nodes: Sequence[Node]
    master: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    min_other_sentinels: int = 0

    @property
    def name(self) -> str:
        return f"sentinel://{_listed(self.nodes)} ({self.master})"

    def __call__(self) -> redis.Redis:
        options = {**DEFAULTS, **self.options, "retry": no_retry()}
        asking = {
            **DEFAULTS,
            **{key: value for key, value in options.items() if key.startswith("socket_")},
            **self.sentinel_options,
            "retry": no_retry(),
        }
        make: Any = Sentinel
        sentinel = make(
            list(self.nodes), min_other_sentinels=self.min_other_sentinels, sentinel_kwargs=asking, **options
        )
        client: redis.Redis = sentinel.master_for(self.master, redis_class=_Master)
        return client


class _Master(redis.Redis):
    """After a failover the old master may take writes for seconds, which then are lost. So this does not wait until
    it is told to be a replica and cuts its connections."""

    _clock: Final = SystemClock()
    _next: float | None = None
    _pause = _LOOK

    def execute_command(self, *args: Any, **options: Any) -> Any:
        now = self._clock.monotonic()
        if self._next is None:  # the first connection asks anyway
            self._next = now + _LOOK
        elif now >= self._next:
            self._next = now + _LOOK  # one thread is enough
            self._look()
            self._next = self._clock.monotonic() + self._pause
        client: Any = super()
        return client.execute_command(*args, **options)

    def _look(self) -> None:
        pool: Any = self.connection_pool
        try:
            pool.get_master_address()  # cuts idle connections if it is another one
            self._pause = _LOOK
        except (RedisError, OSError):  # whom we are connected to is the best we know
            self._pause = min(self._pause * 2, _SELDOM)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Makes clients of a cluster. All keys of one registered name must be in one slot: see ``Namespace.hash_tag``.

    :ivar nodes: some of its nodes; the others are told by these.
    """

    nodes: Sequence[Node]
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return f"redis+cluster://{_listed(self.nodes)}"

    def __call__(self) -> Any:
        node: Any = ClusterNode
        nodes = [node(host, port) for host, port in self.nodes]
        client: Any = redis.RedisCluster(startup_nodes=nodes, retry=no_retry(), **{**DEFAULTS, **self.options})
        client.cluster_error_retry_attempts = 0  # what counts before redis-py 6
        return client


def _listed(nodes: Sequence[Node]) -> str:
    return ";".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in nodes)
