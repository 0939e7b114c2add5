"""The coordinator's face: each method is one script call (several if a batch is huge)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from celery_parrot.clock import Clock, SystemClock, new_id
from celery_parrot.coordination.redis import answers, codec
from celery_parrot.coordination.redis.faults import Fault, Faults, Tell
from celery_parrot.coordination.redis.keys import key
from celery_parrot.coordination.redis.link import Link, Target
from celery_parrot.coordination.redis.scripts import Script, extended, script
from celery_parrot.errors import MemoryLost, ParrotError, Unreachable
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import (
    SAME_AGE,
    WORKER_LOST,
    Carried,
    CommitReply,
    Delivery,
    Drop,
    FinishReply,
    FinishVerdict,
    Hold,
    Lease,
    Mark,
    Memory,
    Outcome,
    Reading,
    Reaped,
    Registration,
    Running,
    StartReply,
    StartVerdict,
    SweepReply,
    Timing,
)
from celery_parrot.protocols.holding import Held, Release

T = TypeVar("T")

#: Items in one script call: a batch beyond that would keep the server from others for too long.
_CHUNK: Final = 1000


class RedisCoordinator:
    """A :class:`~celery_parrot.protocols.Coordinator` in Redis or Valkey, which can also prepare for rows that decide
    and hold schedules of code. Thread-safe; survives a fork.

    :param target: a Redis URL, a function that makes a client, or a :class:`Link` to share.
    :param namespace: the registered name. With ``hash_tag`` all keys are in one slot of a cluster.
    :param options: keyword arguments for the client made from a URL.
    :param clock: this process's monotonic clock, for the pauses between tries during an outage.
    :param clock_offset: for tests: seconds added to the server's clock, the same for every client of a test.
    """

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
        return f"RedisCoordinator({self._link.name!r}, {self.namespace.name!r})"

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
        reading, replies = self._call(name, {field: [out(item) for item in items[:_CHUNK]], **payload})
        replies = list(replies)
        for first in range(_CHUNK, len(items), _CHUNK):
            chunk = [out(item) for item in items[first : first + _CHUNK]]
            reading, more = self._call(name, {field: chunk, **payload})
            replies += more
        return reading, replies

    # -- memory --

    def attach(self) -> Reading:
        self._known = ""
        return self._call("attach", {})[0]

    def remember(self, memory: Memory) -> Reading:
        when = {registration.schedule_id: registration.when for registration in memory.registrations}
        marks = [
            {
                "id": mark.schedule_id,
                "last_due": codec.iso(mark.last_due),
                "held": mark.held or "",
                "when": when.get(mark.schedule_id, ""),
            }
            for mark in memory.marks
        ]
        reading = None
        for first in range(0, max(len(marks), len(memory.outbox), 1), _CHUNK):
            last = first + _CHUNK
            fires = memory.outbox[first:last]
            payload: dict[str, Any] = {
                "marks": marks[first:last],
                "outbox": [codec.fire_out(fire) for fire in fires],
                "proofs": codec.proofs_out(fires),
                "same_age": round(SAME_AGE * 1000),
            }
            if memory.seen_at is not None:
                payload["seen_at"] = codec.to_ms(memory.seen_at)
            reading, _ = self._call("remember", payload)
        assert reading is not None
        return reading

    def remember_running(self, running: Sequence[Running]) -> Reading:
        return self._batch("remember_running", "items", running, codec.running_out)[0]

    # -- beats --

    def register(self, registrations: Sequence[Registration]) -> Sequence[Mark]:
        def out(registration: Registration) -> dict[str, Any]:
            item: dict[str, Any] = {"id": registration.schedule_id, "when": registration.when}
            if registration.initial is not None:
                item["initial"] = codec.iso(registration.initial)
            return item

        _, replies = self._batch("register", "items", registrations, out)
        return [
            Mark(
                schedule_id=registration.schedule_id,
                last_due=datetime.fromisoformat(codec.text(told[0])),
                held=codec.text(told[1], "replace") or None,
            )
            for registration, told in zip(registrations, replies, strict=True)
            if told  # what has no answer stays without a mark, and is asked for again
        ]

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        reading, replies = self._batch("commit", "plans", plans, codec.plan_out, owner=owner)
        return reading, [answers.commit_in(plan, reply) for plan, reply in zip(plans, replies, strict=True)]

    def renew(self, holds: Sequence[Hold]) -> Sequence[bool]:
        return self._flags("renew", "holds", holds, codec.hold_out)

    def confirm(self, holds: Sequence[Hold], deadlines: Sequence[datetime | None] | None = None) -> Sequence[bool]:
        return self._flags("confirm", "holds", holds, codec.hold_out)

    def drop(self, drops: Sequence[Drop]) -> Sequence[bool]:
        def out(drop: Drop) -> dict[str, Any]:
            return codec.hold_out(drop.hold) | {"status": drop.status.value, "reason": drop.reason}

        return self._flags("drop", "drops", drops, out)

    def _flags(self, name: str, field: str, items: Sequence[T], out: Callable[[T], Any]) -> list[bool]:
        return [bool(reply) for reply in self._batch(name, field, items, out)[1]]

    def sweep(self, beat: Beat, *, offset: int = 0, limit: int = 1000) -> SweepReply:
        payload = {"owner": beat.owner, "beat": codec.beat_out(beat), "offset": offset, "limit": limit}
        reading, (flat, due, beats, seen) = self._call("sweep", payload)
        read = answers.FiresIn(self._faults.report)
        told = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        found = [read(claim, raw, plan) for claim, raw, plan in told]
        takeable = (fire for index in due if (fire := found[int(index) - 1]) is not None)
        return SweepReply(
            reading=reading,
            entries=tuple(fire for fire in found if fire is not None),
            due=tuple(Hold(fire.key, fire.owner, fire.tries) for fire in takeable),
            beats=answers.beats_in(beats, seen, self._faults.report),
        )

    def take(self, holds: Sequence[Hold], owner: str) -> Sequence[Fire | None]:
        _, replies = self._batch("take", "holds", holds, codec.hold_out, owner=owner)
        read = answers.FiresIn(self._faults.report)
        return [read(hold.key.text, *told) if told else None for hold, told in zip(holds, replies, strict=True)]

    def reap(self, *, limit: int = 500, holding: bool = False) -> Sequence[Reaped]:
        _, replies = self._call("reap", {"limit": limit, "reason": WORKER_LOST})
        read = answers.FiresIn(self._faults.report)
        return [
            Reaped(fire=fire, named=_keys(named))
            for claim, raw, *named in replies
            if (fire := read(claim, raw)) is not None
        ]

    def leave(self, owner: str) -> None:
        self._call("leave", {"owner": owner})

    # -- rows that decide --

    def prepare(self, plans: Sequence[Plan], owner: str, token: str) -> tuple[Reading, Sequence[CommitReply]]:
        reading, replies = self._batch("prepare", "plans", plans, codec.prepared_out, owner=owner, token=token)
        return reading, [answers.commit_in(plan, reply) for plan, reply in zip(plans, replies, strict=True)]

    def discard(self, holds: Sequence[Hold], token: str) -> Sequence[bool]:
        _, replies = self._batch("discard", "texts", holds, lambda hold: hold.key.text, token=token)
        return [bool(reply) for reply in replies]

    def uncarried(self, *, limit: int = 500) -> Sequence[Carried]:
        _, flat = self._call("uncarried", {"limit": max(limit, 0)})
        told = zip(flat[::2], flat[1::2], strict=True)
        found = [
            answers.whole(
                partial(answers.carried_in, self.namespace, codec.text(claim, "replace"), raw),
                self._faults.report,
                "carry",
                codec.text(claim, "replace"),
            )
            for claim, raw in told
        ]
        return [carried for carried in found if carried is not None]

    def carried(self, items: Sequence[Carried]) -> None:
        self._batch("carried", "items", items, lambda item: {"text": item.record.key.text, "serial": item.serial})

    # -- holding --

    def hold(self, schedule_ids: Sequence[str], by: str, note: str) -> Sequence[bool]:
        return [bool(reply) for reply in self._batch("hold", "ids", schedule_ids, str, by=by, note=note)[1]]

    def release(self, releases: Sequence[Release]) -> Sequence[Verdict]:
        _, replies = self._batch("release", "items", releases, codec.release_out)
        return [Verdict(codec.text(verdict)) for verdict, _ in replies]

    def holds(self, schedule_ids: Sequence[str]) -> Mapping[str, Held]:
        _, replies = self._batch("holds", "ids", schedule_ids, str)
        found = zip(schedule_ids, map(answers.held_in, replies), strict=True)
        return {schedule_id: held for schedule_id, held in found if held is not None}

    # -- workers --

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]:
        _, replies = self._batch("start", "items", deliveries, codec.delivery_out)
        self._whole(replies, [delivery.key for delivery in deliveries])
        return [
            StartReply(
                verdict=StartVerdict(codec.text(verdict)),
                attempt=attempt,
                lease_until=codec.from_ms(lease) if lease else None,
                retry_after=pause / 1000,
            )
            for verdict, attempt, lease, pause in replies
        ]

    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]:
        return self._flags(
            "renew_leases", "leases", leases, lambda lease: {"text": lease.key.text, "token": lease.token}
        )

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]:
        _, replies = self._batch("finish", "items", outcomes, codec.outcome_out)
        self._whole(replies, [outcome.lease.key for outcome in outcomes])
        return [
            FinishReply(verdict=FinishVerdict(codec.text(verdict)), named=_keys(named)) for verdict, *named in replies
        ]

    def _whole(self, replies: Sequence[Any], keys: Sequence[FireKey]) -> None:
        """:raises ParrotError: naming the claims that could not be read. The others were carried out; to ask for
        them again is harmless."""
        bad = [self.namespace.claim_key(key) for key, told in zip(keys, replies, strict=True) if not told]
        if bad:
            raise ParrotError(f"cannot be read, or what belongs to it; the log says what to do: {', '.join(bad)}")

    # -- reading --

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        payload: dict[str, Any] = {"id": schedule_id, "limit": max(limit, 0)}
        if before is not None:
            payload["before"] = codec.iso(before)
        reading, flat = self._call("history", payload)
        return self.history_in(schedule_id, reading.now, flat)

    def history_in(self, schedule_id: str, now: datetime, flat: Sequence[bytes]) -> list[FireRecord]:
        """History as the scripts tell it, moment and entry in turn, without what is too old to be shown."""
        oldest = now - timedelta(days=self.timing.history_days)
        records = [
            answers.whole(
                partial(answers.record_in, self.namespace, schedule_id, codec.text(moment, "replace"), raw),
                self._faults.report,
                f"fires:{schedule_id}",
                codec.text(moment, "replace"),
            )
            for moment, raw in zip(flat[::2], flat[1::2], strict=True)
        ]
        kept = [record for record in records if record is not None and (record.until or record.due_at) >= oldest]
        return sorted(kept, key=lambda record: record.key, reverse=True)

    @staticmethod
    def state_in(flat: Sequence[bytes]) -> RunState | None:
        """Run state from the fields and values of its hash; None if there are none."""
        return answers.state_in(flat)

    def run_states(self, schedule_ids: Sequence[str]) -> Mapping[str, RunState]:
        _, replies = self._batch("run_states", "ids", schedule_ids, str)
        found = {}
        for schedule_id, flat in zip(schedule_ids, replies, strict=True):

            def report(field: str, exc: Exception, schedule_id: str = schedule_id) -> None:
                self._faults.report(Fault(f"state:{schedule_id}", field, f"cannot be read ({exc})"))

            state = answers.state_in(flat, report)
            if state is not None:
                found[schedule_id] = state
        return found

    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]:
        _, replies = self._batch("claims", "texts", keys, lambda key: key.text)
        read = answers.FiresIn(self._faults.report)
        return [read(key.text, *told) if told else None for key, told in zip(keys, replies, strict=True)]

    def beats(self) -> Sequence[Beat]:
        _, (beats, seen) = self._call("beats", {})
        return list(answers.beats_in(beats, seen, self._faults.report))

    def close(self) -> None:
        """Close this process's connections; a later call opens new ones."""
        self._link.close()


def _keys(texts: Sequence[bytes]) -> tuple[FireKey, ...]:
    """Keys of fires that a release named, told as claim text and moment in turn."""
    told = [codec.text(part) for part in texts]
    return tuple(codec.key_from_text(claim, moment) for claim, moment in zip(told[::2], told[1::2], strict=True))
