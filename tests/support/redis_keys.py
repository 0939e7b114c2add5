"""No key may stay for ever by accident: each has a TTL or is on a list of permanent ones."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import redis

PREFIX = "parrot:"

#: Patterns of the keys that may stay without a TTL, relative to ``parrot:scheduler:{registered_name}:``.
#: Whoever adds one documents it in docs/ and in the room that writes it.
PERMANENT_KEYS: tuple[str, ...] = (
    "jobs",  # definitions of the redis store
    "names",  # their names, in order
    "names:*",  # the same of each kind
    "kinds",  # their kinds
    "run_times:*",  # their due times, by kind
    "state:*",  # run state of a schedule that exists
    "epoch",  # by which a memory loss is noticed
)


def leaked_keys(client: redis.Redis, permanent: Iterable[str] = PERMANENT_KEYS, prefix: str = PREFIX) -> list[str]:
    """Keys under ``prefix`` that have no TTL and match none of ``permanent``, sorted.

    A pattern is matched against the whole key and against what follows ``parrot:scheduler:{registered_name}:``.
    """
    patterns = tuple(permanent)
    leaked: list[str] = []
    for raw in client.scan_iter(match=f"{prefix}*", count=1000):
        key = raw.decode() if isinstance(raw, bytes) else str(raw)
        if client.ttl(key) != -1:  # -1: no TTL; -2: gone since
            continue
        short = key.split(":", 3)[3] if key.startswith("parrot:scheduler:") and key.count(":") >= 3 else key
        if not any(fnmatchcase(key, p) or fnmatchcase(short, p) for p in patterns):
            leaked.append(key)
    return sorted(leaked)


def assert_no_leaks(client: redis.Redis, permanent: Iterable[str] = PERMANENT_KEYS, prefix: str = PREFIX) -> None:
    """Fail, naming each key that would stay for ever."""
    leaked = leaked_keys(client, permanent, prefix)
    assert not leaked, (
        "Redis keys without a TTL that are on no permanent list "
        "(give them one, or list them by overriding the fixture permanent_keys):\n  " + "\n  ".join(leaked[:20])
    )
