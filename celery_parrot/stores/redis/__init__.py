"""Schedules in Redis or Valkey. Speaks through a connected coordinator, which it is given; see :class:`Server`."""

from celery_parrot.stores.redis.keys import COMMANDS, PERMANENT_KEYS
from celery_parrot.stores.redis.server import Server
from celery_parrot.stores.redis.store import RedisStore

__all__ = ["COMMANDS", "PERMANENT_KEYS", "RedisStore", "Server"]
