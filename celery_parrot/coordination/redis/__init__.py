"""The coordinator in Redis or Valkey (6.2 or newer): one script an operation, nothing else speaks to the server."""

from celery_parrot.coordination.redis.clients import Cluster, SentinelMaster
from celery_parrot.coordination.redis.coordinator import RedisCoordinator
from celery_parrot.coordination.redis.keys import COMMANDS, PERMANENT_KEYS, key
from celery_parrot.coordination.redis.link import Link
from celery_parrot.coordination.redis.wake import RedisWake

__all__ = [
    "COMMANDS",
    "PERMANENT_KEYS",
    "Cluster",
    "Link",
    "RedisCoordinator",
    "RedisWake",
    "SentinelMaster",
    "key",
]
