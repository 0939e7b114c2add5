"""Limits."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.coordination.redis import answers, codec
from celery_parrot.coordination.redis.calls import Calls
from celery_parrot.model.fire import FireKey
from celery_parrot.protocols import (
    EXPIRED_WAITING,
    IN_FLIGHT,
    IN_FLIGHT_SKIP_OUTPUT_KEY,
    NEVER_STARTED,
    OVERLAP,
    QUEUE_DEADLINE,
    SILENT,
    WORKER_LOST,
    LimitReply,
    LimitRequest,
    LimitState,
    Reaped,
    Reservation,
)

_WORKER_GONE = "the worker that had its message is gone"


class LimitCalls(Calls):
    """:class:`~celery_parrot.protocols.Limits`, and the reaper, which looks after them."""

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        words = {"skip_key": IN_FLIGHT_SKIP_OUTPUT_KEY, "in_flight": IN_FLIGHT, "overlap": OVERLAP}
        _, replies = self._batch("request", "items", requests, codec.request_out, **words)
        return [answers.limit_reply_in(self.namespace, reply) for reply in replies]

    def reserve(self, reservations: Sequence[Reservation]) -> Sequence[bool]:
        return self._flags("reserve", "items", reservations, codec.reservation_out)

    def limits(self) -> Sequence[LimitState]:
        _, (found, claims) = self._call("limits", {})
        read = answers.FiresIn(self._faults.report)
        fires = {codec.text(claim): read(claim, raw) for claim, raw in zip(claims[::2], claims[1::2], strict=True)}
        raws = dict(zip(map(codec.text, claims[::2]), claims[1::2], strict=True))
        states = [answers.limit_state_in(told, fires, raws, self._faults.report) for told in found]
        return sorted(states, key=lambda state: state.name)

    def free(self, keys: Sequence[FireKey], reason: str) -> Sequence[Reaped | None]:
        _, replies = self._batch("free", "texts", keys, lambda key: key.text, reason=reason)
        read = answers.FiresIn(self._faults.report)
        freed: list[Reaped | None] = []
        for key, told in zip(keys, replies, strict=True):
            fire = read(key.text, told[0]) if told else None
            freed.append(None if fire is None else Reaped(fire=fire, named=answers.keys_in(told[1:])))
        return freed

    def reap(self, *, limit: int = 500, holding: bool = False) -> Sequence[Reaped]:
        words = {
            "lost": WORKER_LOST,
            "silent": SILENT,
            "deadline": QUEUE_DEADLINE,
            "never": NEVER_STARTED,
            "waited": EXPIRED_WAITING,
            "reserved": _WORKER_GONE,
        }
        _, replies = self._call("reap", {"limit": limit, "holding": holding, **words})
        read = answers.FiresIn(self._faults.report)
        return [
            Reaped(fire=fire, named=answers.keys_in(named), again=bool(again))
            for claim, raw, again, *named in replies
            if (fire := read(claim, raw)) is not None
        ]
