"""What every call to the coordinator in Redis has in common: one script, the epoch, batches, what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from celery_parrot.clock import Clock, SystemClock, new_id
from celery_parrot.coordination.redis import codec
from celery_parrot.coordination.redis.faults import Faults, Tell
from celery_parrot.coordination.redis.keys import key
from celery_parrot.coordination.redis.link import Link, Target
from celery_parrot.coordination.redis.scripts import Script, extended, script
from celery_parrot.errors import MemoryLost, ParrotError, Unreachable
from celery_parrot.model.fire import FireKey, Namespace
from celery_parrot.protocols import Reading, Timing

T = TypeVar("T")

#: Items in one script call: a batch beyond that would keep the server from others for too long.
CHUNK: Final = 1000


class Calls:
    """One registered name on one server."""

    def __init__(
        self,
        target: Target | Link,
        namespace: Namespace,
        timing: Timing | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        clock_offset: float = 0.0,
    ) -> None:
        self.namespace = namespace
        self.timing = timing or Timing()
        self.clock_offset = clock_offset
        self._link = target if isinstance(target, Link) else Link(target, options, clock)
        self._conf = codec.conf(namespace, self.timing)
        self._common = key(namespace, "coordinator")
        self._known = ""
        self._faults = Faults(namespace.prefix, clock or SystemClock())

    def report_to(self, tell: Tell) -> None:
        """Tell ``tell`` of what cannot be read, instead of the log: a sentence with the key and what to do about it,
        and fields. Each once, and again after ten minutes if it lasts."""
        self._faults.tell = tell

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._link.name!r}, {self.namespace.name!r})"

    # -- every call --

    def _call(self, name: str, payload: Mapping[str, Any]) -> tuple[Reading, Any]:
        """:raises Unreachable: :raises MemoryLost:"""
        known = self._known
        reply = self._run(script(name), known, payload)
        if reply[0] == b"LOST":
            raise MemoryLost(codec.text(reply[1]))
        if reply[0] == b"BAD":
            raise Unreachable(self._faults.fatal(*reply[1:]))
        _, epoch, now, judge_from, quiet_until, items, faults = reply
        self._faults.told(faults)
        epoch = codec.text(epoch)
        if epoch != known:  # else another thread may have learnt a newer one meanwhile
            self._known = epoch
        reading = Reading(
            now=codec.from_ms(now),
            epoch=epoch,
            judge_from=codec.from_ms(judge_from),
            quiet_until=codec.from_ms(quiet_until),
        )
        return reading, items

    def _run(self, what: Script, known: str, payload: Mapping[str, Any]) -> Any:
        args = (self._conf, known, new_id(), codec.dump(payload), str(round(self.clock_offset * 1000)))
        return self._link.run(what, (self._common,), args)

    def ask(self, name: str, body: str, payload: Mapping[str, Any]) -> tuple[datetime, Any]:
        """Run a script of another room on the same data; the server's clock and the answer.

        :param body: Lua that follows this room's prelude and shared functions and ends with ``return plain(…)``. It
            knows no epoch: it neither finds memory lost nor counts as a sign of life.
        :raises Unreachable: if the server could not be asked, or its answer was lost."""
        now, items, faults = self._run(extended(name, body), "", payload)
        self._faults.told(faults)
        return codec.from_ms(now), items

    def _batch(
        self, name: str, field: str, items: Sequence[T], out: Callable[[T], Any], **payload: Any
    ) -> tuple[Reading, list[Any]]:
        """One call, or one after the other for a huge batch: its items do not depend on each other."""
        reading, replies = self._call(name, {field: [out(item) for item in items[:CHUNK]], **payload})
        replies = list(replies)
        for first in range(CHUNK, len(items), CHUNK):
            chunk = [out(item) for item in items[first : first + CHUNK]]
            reading, more = self._call(name, {field: chunk, **payload})
            replies += more
        return reading, replies

    def _flags(self, name: str, field: str, items: Sequence[T], out: Callable[[T], Any], **payload: Any) -> list[bool]:
        return [bool(reply) for reply in self._batch(name, field, items, out, **payload)[1]]

    def _whole(self, replies: Sequence[Any], keys: Sequence[FireKey]) -> None:
        """:raises ParrotError: naming the claims that could not be read. The others were carried out; to ask for
        them again is harmless."""
        bad = [self.namespace.claim_key(key) for key, told in zip(keys, replies, strict=True) if not told]
        if bad:
            raise ParrotError(f"cannot be read, or what belongs to it; the log says what to do: {', '.join(bad)}")
