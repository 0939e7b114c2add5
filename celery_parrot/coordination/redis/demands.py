"""Fires that a person asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from celery_parrot.coordination.redis import codec
from celery_parrot.coordination.redis.calls import Calls
from celery_parrot.model.plan import NotFired
from celery_parrot.protocols import Demand, DemandReply, DemandVerdict


class DemandCalls(Calls):
    """:class:`~celery_parrot.protocols.Demands`."""

    def demand(self, demands: Sequence[Demand]) -> Sequence[DemandReply]:
        _, replies = self._batch("demand", "items", demands, _demand_out)
        self._whole(replies, [demand.key for demand in demands])
        return [_reply_in(demand, *reply) for demand, reply in zip(demands, replies, strict=True)]


def _demand_out(demand: Demand) -> dict[str, Any]:
    key = demand.key
    out: dict[str, Any] = {
        "text": key.text,
        "id": key.schedule_id,
        "moment": key.moment,
        "nonce": key.nonce,
        "name": demand.name,
        "kind": demand.kind,
        "origin": demand.origin.value,
        "attempt": demand.attempt,
    }
    if demand.store != "code":
        out["store"] = demand.store
    if demand.recover:
        out["recover"] = True
    if demand.tells:
        out["tells"] = list(demand.tells)
    if demand.guard is not None:
        out["guard"] = max(round(demand.guard * 1000), 1)
    if demand.override is not None:  # as text: the scripts would change numbers and empty lists
        out["override"] = json.dumps(dict(demand.override), separators=(",", ":"))
    if demand.split is not None:
        split = demand.split
        out["split"] = _range_out(split.whole)
        for name, part in (("before", split.before), ("after", split.after)):
            if part is not None:
                out["split"][name] = _range_out(part)
    return out


def _range_out(run: NotFired) -> dict[str, Any]:
    return {"first": codec.iso(run.first), "last": codec.iso(run.last), "count": run.count}


def _reply_in(demand: Demand, verdict: bytes, moment: bytes, again: int, held_by: bytes, since: int) -> DemandReply:
    told = DemandVerdict(codec.text(verdict))
    return DemandReply(
        verdict=told,
        key=codec.key_of(demand.key.schedule_id, codec.text(moment)) if told is DemandVerdict.ASKED else None,
        again=bool(again),
        held_by=codec.text(held_by),
        since=codec.from_ms(since) if since else None,
    )
