"""Redis Cluster: all keys in one slot, and a client that knows where that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import Namespace
from celery_parrot.model.plan import Verdict
from celery_parrot.stores.redis import RedisStore
from celery_parrot.testing.conformance.schedule_store import EVERY, StoreScene
from tests.integration.stores_redis.server import StoreServer
from tests.integration.stores_redis.test_commits import commit, plans
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until


class ClusterServer(StoreServer):
    def __init__(self, server: PrivateRedis, client: Any) -> None:
        super().__init__(server.url(), client, hash_tag=True)
        self._port = server.port

    def coordinator(self) -> RedisCoordinator:
        def connect() -> Any:
            return redis.RedisCluster(host="127.0.0.1", port=self._port, retry=Retry(NoBackoff(), 0))

        made = RedisCoordinator(connect, self.namespace, clock_offset=self._offset)
        self._coordinators.append(made)
        return made


def test_a_cluster(make_redis: Callable[..., PrivateRedis]) -> None:
    """Definitions, commits, edits and listing, through a cluster client."""
    node = make_redis(options={"cluster-enabled": "yes", "cluster-config-file": "nodes.conf"})
    with node.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO")), "the cluster", 10)
        server = ClusterServer(node, client)
        scene = StoreScene(server)
        a, _ = scene.add("a", "b")
        server.advance(EVERY)
        coordinator = server.coordinator()
        assert {reply.verdict for reply in commit(coordinator, *plans(scene))} == {Verdict.COMMITTED}
        scene.s.hold([a.schedule_id], "person", "")
        assert [one.name for one in RedisStore(coordinator).find().items] == ["a", "b"]
        slots = {client.execute_command("CLUSTER", "KEYSLOT", key) for key in client.keys("*")}
        assert slots == {client.execute_command("CLUSTER", "KEYSLOT", Namespace("conformance", hash_tag=True).prefix)}
        server.close()
