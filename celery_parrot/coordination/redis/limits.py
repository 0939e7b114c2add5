"""Limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from celery_parrot.coordination.redis import answers, codec
from celery_parrot.coordination.redis.calls import CHUNK, Calls
from celery_parrot.model.fire import FireKey
from celery_parrot.planning.backlog import TOO_LATE
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
    Waiting,
)


class LimitCalls(Calls):
    """:class:`~celery_parrot.protocols.Limits`, and the reaper, which looks after them."""

    _line: Mapping[str, Waiting] = {}  # the line as it was read last, by place

    def _line_seen(self) -> str:
        """The latest arrival that is known. Each fire is read once: with 1,000 in line every sweep would read all."""
        return max((place[answers.ARRIVAL] for place in self._line), default="")

    def _line_in(self, told: bytes, new: Sequence[bytes], offset: int, limit: int) -> tuple[Waiting, ...]:
        """The fires at these places. One that has left the line since is left out."""
        places: list[str] = [*codec.load(codec.text(told, "replace"))]
        known = dict(self._line)
        self._learn(known, zip(new[::2], new[1::2], strict=True))
        missing = [place for place in places if place not in known]  # beyond the page that was read before
        for first in range(0, len(missing), CHUNK):
            chunk = missing[first : first + CHUNK]
            _, replies = self._call("claims", {"texts": [place[answers.PLACE :] for place in chunk]})
            self._learn(known, ((place, reply[0]) for place, reply in zip(chunk, replies, strict=True) if reply))
        line = {place: known[place] for place in places if place in known}
        self._line = line | {place: known[place] for place in known if _is_beside(place, places, offset, limit)}
        return tuple(line.values())

    def _learn(self, known: dict[str, Waiting], told: Iterable[tuple[bytes | str, bytes]]) -> None:
        read = answers.FiresIn(self._faults.report)
        for place, raw in told:
            claim = codec.text(place, "replace")[answers.PLACE :]
            waiting = answers.waiting_in(claim, raw, read(claim, raw), self._faults.report)
            if waiting is not None:
                known[codec.text(place, "replace")] = waiting

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        words = {"skip_key": IN_FLIGHT_SKIP_OUTPUT_KEY, "in_flight": IN_FLIGHT, "overlap": OVERLAP}
        _, replies = self._batch("request", "items", requests, codec.request_out, **words)
        return [answers.limit_reply_in(self.namespace, reply) for reply in replies]

    def reserve(self, reservations: Sequence[Reservation]) -> Sequence[bool]:
        return self._flags("reserve", "items", reservations, codec.reservation_out)

    def limits(self) -> Sequence[LimitState]:
        _, (found, claims) = self._call("limits", {})
        read = answers.FiresIn(self._faults.report)
        told = list(zip(map(codec.text, claims[::3]), claims[1::3], claims[2::3], strict=True))
        fires = {claim: read(claim, raw, plan) for claim, raw, plan in told}
        raws = {claim: raw for claim, raw, _ in told}
        states = [answers.limit_state_in(limit, fires, raws, self._faults.report) for limit in found]
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
            "unsent": TOO_LATE,
        }
        _, replies = self._call("reap", {"limit": limit, "holding": holding, **words})
        read = answers.FiresIn(self._faults.report)
        return [
            Reaped(fire=fire, named=answers.keys_in(named), again=bool(again))
            for claim, raw, again, *named in replies
            if (fire := read(claim, raw)) is not None
        ]


def _is_beside(place: str, page: Sequence[str], offset: int, limit: int) -> bool:
    """Whether a place is on another page of the line than this one."""
    if not page:
        return offset > 0
    return (offset > 0 and place < page[0]) or (len(page) >= limit and place > page[-1])
