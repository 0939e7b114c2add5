"""Rows of a database that decide, and schedules that are held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from celery_parrot.coordination.redis import answers, codec
from celery_parrot.coordination.redis.calls import Calls
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.protocols import Carried, CommitReply, Hold, Reading
from celery_parrot.protocols.holding import Held, Release


class RowCalls(Calls):
    """:class:`~celery_parrot.protocols.Preparing` and :class:`~celery_parrot.protocols.holding.Holding`."""

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
