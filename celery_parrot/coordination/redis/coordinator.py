"""The coordinator's face: each method is one script call (several if a batch is huge)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from celery_parrot.coordination.redis import answers, codec
from celery_parrot.coordination.redis.calls import CHUNK
from celery_parrot.coordination.redis.demands import DemandCalls
from celery_parrot.coordination.redis.faults import Fault
from celery_parrot.coordination.redis.limits import LimitCalls
from celery_parrot.coordination.redis.parcels import ParcelCalls
from celery_parrot.coordination.redis.rows import RowCalls
from celery_parrot.model.fire import Fire, FireKey, FireRecord
from celery_parrot.model.plan import Plan
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import (
    SAME_AGE,
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
    Registration,
    Running,
    StartReply,
    SweepReply,
)

T = TypeVar("T")


class RedisCoordinator(RowCalls, LimitCalls, DemandCalls, ParcelCalls):
    """A :class:`~celery_parrot.protocols.Coordinator` in Redis or Valkey, which can also prepare for rows that decide
    and hold schedules of code. Thread-safe; survives a fork.

    :param target: a Redis URL, a function that makes a client, or a :class:`Link` to share.
    :param namespace: the registered name. With ``hash_tag`` all keys are in one slot of a cluster.
    :param options: keyword arguments for the client made from a URL.
    :param clock: this process's monotonic clock, for the pauses between tries during an outage.
    :param clock_offset: for tests: seconds added to the server's clock, the same for every client of a test.
    """

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
        for first in range(0, max(len(marks), len(memory.outbox), len(memory.line), 1), CHUNK):
            last = first + CHUNK
            fires = memory.outbox[first:last]
            payload: dict[str, Any] = {
                "marks": marks[first:last],
                "outbox": [codec.fire_out(fire) for fire in fires],
                "line": [codec.waiting_out(waiting) for waiting in memory.line[first:last]],
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
        until = deadlines or [None] * len(holds)
        return self._flags("confirm", "holds", list(zip(holds, until, strict=True)), codec.confirmed_out)

    def drop(self, drops: Sequence[Drop]) -> Sequence[bool]:
        def out(drop: Drop) -> dict[str, Any]:
            return codec.hold_out(drop.hold) | {"status": drop.status.value, "reason": drop.reason}

        return self._flags("drop", "drops", drops, out)

    def sweep(self, beat: Beat, *, offset: int = 0, limit: int = 1000) -> SweepReply:
        payload = {
            "owner": beat.owner,
            "beat": codec.beat_out(beat),
            "offset": offset,
            "limit": limit,
            "line_seen": self._line_seen(),
        }
        reading, (flat, due, beats, seen, line, new) = self._call("sweep", payload)
        read = answers.FiresIn(self._faults.report)
        told = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        found = [read(claim, raw, plan) for claim, raw, plan in told]
        takeable = (fire for index in due if (fire := found[int(index) - 1]) is not None)
        return SweepReply(
            reading=reading,
            entries=tuple(fire for fire in found if fire is not None),
            due=tuple(Hold(fire.key, fire.owner, fire.tries) for fire in takeable),
            beats=answers.beats_in(beats, seen, self._faults.report),
            line=self._line_in(line, new, offset, limit),
        )

    def take(self, holds: Sequence[Hold], owner: str) -> Sequence[Fire | None]:
        _, replies = self._batch("take", "holds", holds, codec.hold_out, owner=owner)
        read = answers.FiresIn(self._faults.report)
        return [read(hold.key.text, *told) if told else None for hold, told in zip(holds, replies, strict=True)]

    def leave(self, owner: str) -> None:
        self._call("leave", {"owner": owner})

    # -- workers --

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]:
        _, replies = self._batch("start", "items", deliveries, codec.delivery_out)
        self._whole(replies, [delivery.key for delivery in deliveries])
        return [answers.start_in(reply) for reply in replies]

    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]:
        return self._flags("renew_leases", "leases", leases, codec.lease_out)

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]:
        _, replies = self._batch("finish", "items", outcomes, codec.outcome_out)
        self._whole(replies, [outcome.lease.key for outcome in outcomes])
        return [
            FinishReply(verdict=FinishVerdict(codec.text(verdict)), named=answers.keys_in(named))
            for verdict, *named in replies
        ]

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
