"""The keys in Redis, all under ``parrot:scheduler:{registered_name}:``, and the commands used on them.

``coordinator``  hash: the epoch and who made it, last touch, ``judge_from``, ``quiet_until``
``pending``      sorted set: the outbox, claims by commit time
``leases``       sorted set: running fires by the end of their lease
``silent``       sorted set: running fires by when they will have shown no progress for too long
``sent``         sorted set: sent fires by when a worker must have started them; ``limits:sent`` those with limits
``beats``        hash: owner -> JSON with host, pid, version, started, seen, skew, tzdata, claims, failing
``seen``         sorted set: owners by last sign of life
``fire:{id}:{due}``  JSON: the claim; expires ``claim_ttl`` after its last change, ``ended_ttl`` after its outcome
``fires:{id}``   hash: due -> JSON, the capped history
``state:{id}``   hash: run state and mark
``running:{id}`` text: the run-now guard: id of the fire that has it; expires ``parrot_run_now_lock_ttl`` after its last
                 sign of life
``guards``       hash: schedule id -> claim of that fire
``proofs``       hash: plans of commits that a row in a database decides, until their fires have left the outbox
``carry``        hash: claim -> JSON: what happened to such fires and is not in the database yet
``uncarried``    sorted set: the same claims, oldest first
``parcels``      hash: id -> JSON: what is to be told to somebody
``parcels:queue``  sorted set: the same ids by when they were queued
``parcels:taken``  hash: id -> which beat sends it, since when
``parcel:{id}``  text: one that was sent and is not queued again; expires like a claim
``mirrored``     set: outbox entries that beats put back after a loss of memory
``wake``         pub/sub channel
``limits:holders:{name}``  sorted set: fires that hold a limit, oldest first
``limits:waiting:{name}``  sorted set: places in line of those that wait for it
``limits:line``      sorted set: places of all that wait, by due time, then arrival: the one line
``limits:ready``     sorted set: places of those that lack nothing but a slot
``limits:until``     sorted set: waiting fires by their wait deadline, granted ones by when they must be sent
``limits:reserved``  sorted set: fires whose message a worker has in hand, by when that lapses
``limits:names``, ``limits:capacities``  every limit that somebody holds or waits for, and how many may hold it
``limits:state``     hash: the latest serial, and what is left to do in the line
``jobs``, ``run_times:{kind}``, ``kinds``  of the redis store, which a commit of its schedules moves along

The scripts build the same names from the prefix (function ``K`` of the prelude).
"""

from __future__ import annotations

from typing import Final

from celery_parrot.model.fire import Namespace

#: Patterns, relative to the prefix, of the keys that stay without a TTL. A schedule's run state is kept until the
#: schedule is deleted; everything else expires.
PERMANENT_KEYS: Final = ("state:*",)

#: What an ACL user needs besides ``~parrot:scheduler:NAME:*`` and ``&parrot:scheduler:NAME:wake``. ``info`` may be
#: left out: then a server that was replaced by another one with the same data is not noticed. ``select`` is needed
#: for a database other than 0. redis-py also says ``client setinfo`` and goes on if that is refused.
COMMANDS: Final = frozenset(
    {
        "del",
        "eval",
        "evalsha",
        "exists",
        "get",
        "hdel",
        "hexists",
        "hget",
        "hgetall",
        "hincrby",
        "hkeys",
        "hlen",
        "hmget",
        "hset",
        "info",
        "mget",
        "pexpire",
        "ping",
        "publish",
        "sadd",
        "select",
        "set",
        "smembers",
        "subscribe",
        "time",
        "unsubscribe",
        "zadd",
        "zcard",
        "zrange",
        "zrangebyscore",
        "zrank",
        "zrem",
        "zscore",
    }
)


def key(namespace: Namespace, name: str) -> str:
    """The full key of ``name``; the only place in Python that builds one."""
    return namespace.key(name)
