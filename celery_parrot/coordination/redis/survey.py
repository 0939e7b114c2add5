"""A look at the server by somebody who asks whether it is fit, not by a beat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from celery_parrot.clock import Clock
from celery_parrot.coordination.redis.link import Link
from celery_parrot.model.fire import Namespace

_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """:ivar eviction: ``maxmemory-policy``, empty if it does not say. :ivar most_memory: bytes; 0 is no bound."""

    version: str
    eviction: str
    most_memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """:ivar seen: how many keys of this scheduler were looked at. ``complete``: whether those are all.
    :ivar untimed: of these, those that have no TTL and should: each would stay for ever."""

    seen: int
    complete: bool
    untimed: tuple[str, ...]


def server_of(link: Link) -> Server:
    """Raises Unreachable; also where the user may not ``INFO``."""
    facts: dict[str, Any] = {}
    for section in ("server", "memory"):
        facts |= _flat(link.do(lambda client, section=section: client.info(section)))  # type: ignore[misc]
    return Server(
        version=str(facts.get("valkey_version") or facts.get("redis_version") or ""),
        eviction=str(facts.get("maxmemory_policy") or ""),
        most_memory=int(facts.get("maxmemory") or 0),
    )


def keys_of(link: Link, namespace: Namespace, permanent: Iterable[str], clock: Clock, *, seconds: float = 5.0) -> Keys:
    """Look at the keys of one scheduler, for so long at most. Raises Unreachable; also where the user may not
    ``SCAN``.

    :param permanent: patterns of keys that need no TTL, relative to the prefix.
    """
    patterns, until = tuple(permanent), clock.monotonic() + seconds

    def look(client: Any) -> Keys:
        seen, complete, untimed = 0, True, list[str]()
        batch: list[bytes] = []
        for raw in client.scan_iter(match=f"{namespace.prefix}*", count=_AT_ONCE):
            seen += 1
            short = raw.decode("utf-8", "replace").removeprefix(namespace.prefix)
            if not any(fnmatchcase(short, pattern) for pattern in patterns):
                batch.append(raw)
            if len(batch) >= _AT_ONCE:
                untimed += _untimed(client, batch)
                batch = []
            if seen % _AT_ONCE == 0 and clock.monotonic() > until:
                complete = False
                break
        return Keys(seen=seen, complete=complete, untimed=tuple(sorted([*untimed, *_untimed(client, batch)])))

    found: Keys = link.do(look)
    return found


def _untimed(client: Any, keys: Sequence[bytes]) -> list[str]:
    if not keys:
        return []
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.pttl(key)
    return [key.decode("utf-8", "replace") for key, ttl in zip(keys, pipe.execute(), strict=True) if ttl == -1]


def _flat(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster may answer by node."""
    if answer and all(isinstance(value, Mapping) for value in answer.values()):
        return dict(next(iter(answer.values())))
    return dict(answer)
