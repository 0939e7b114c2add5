"""Redis keys of other schedulers, read and never written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from celery_parrot.coordination.redis.link import Link
from celery_parrot.errors import ConfigurationError, ParrotError, Unreachable
from celery_parrot.model.secrets import mask

T = TypeVar("T")
_AT_ONCE: Final = 500
_GLOB: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\*?[]"})


class ForeignKeys:
    """Somebody else's keys.

    :param url: ``redis://``, ``rediss://``, ``unix://``, also with ``valkey``.
    :raises ConfigurationError: for another one.
    """

    def __init__(self, url: str) -> None:
        if url.partition("://")[0] not in ("redis", "rediss", "unix", "valkey", "valkeys"):
            raise ConfigurationError("URL", mask(url), "is no Redis", "Write it as redis://host:port/number.")
        self.where = f"Redis at {mask(url)}"
        self._link = Link(url)

    def close(self) -> None:
        """Let go of the connection."""
        self._link.close()

    def starting_with(self, prefix: str) -> list[str]:
        """Names of the keys, in order."""
        found = self._ask(lambda client: list(client.scan_iter(match=f"{prefix.translate(_GLOB)}*", count=1000)))
        return sorted({key.decode("utf-8", "surrogateescape") for key in found})

    def fields(self, keys: list[str], names: Iterable[str]) -> list[list[bytes | None] | None]:
        """These fields of each hash; None for a key that is none."""
        wanted, found = list(names), []
        for first in range(0, len(keys), _AT_ONCE):
            some = [key.encode("utf-8", "surrogateescape") for key in keys[first : first + _AT_ONCE]]
            found += self._ask(partial(_fields, keys=some, names=wanted))
        return [None if isinstance(each, Exception) else each for each in found]

    def hash(self, key: str) -> dict[bytes, bytes]:
        """All fields of one hash; empty if there is none."""
        return self._ask(lambda client: client.hgetall(key))

    def members(self, key: str) -> set[str]:
        """Of a set; empty if there is none."""
        return {each.decode("utf-8", "replace") for each in self._ask(lambda client: client.smembers(key))}

    def scores(self, key: str) -> dict[str, float]:
        """Of a sorted set, by member."""
        found = self._ask(lambda client: client.zrange(key, 0, -1, withscores=True))
        return {member.decode("utf-8", "replace"): score for member, score in found}

    def _ask(self, call: Callable[[Any], T]) -> T:
        try:
            answer: T = self._link.do(call)
        except Unreachable as error:
            raise ParrotError(f"{self.where} cannot be read: {str(error).partition(': ')[2]}") from None
        return answer


def _fields(client: Any, keys: list[bytes], names: list[str]) -> list[Any]:
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.hmget(key, names)
    answers: list[Any] = pipe.execute(raise_on_error=False)
    return answers
