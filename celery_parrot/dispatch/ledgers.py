"""Who decides the commits of each store, and what a sweeper must ask before it sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from celery_parrot.clock import new_id
from celery_parrot.errors import StoreUnreachable, Unreachable
from celery_parrot.model.fire import Fire, FireKey, Namespace, Proof
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.protocols import (
    Advance,
    CommitReply,
    Coordinator,
    Hold,
    Ledger,
    Preparing,
    Reading,
    RowStore,
)


class SharedLedger:
    """The coordinator alone decides: definitions whose mark lives with it."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        """One step."""
        return self._coordinator.commit(plans, owner)

    def prove(self, fires: Sequence[Fire]) -> Mapping[FireKey, bool]:
        """Nothing to prove."""
        return {fire.key: True for fire in fires}


class RowLedger:
    """A row decides: claims are prepared, the row moves, and claims that lost are taken back.

    A process may die after either step. Dead before the row moved, its claims prove false and are dropped by whoever
    sweeps them; dead after, they prove true and are sent.
    """

    def __init__(self, coordinator: Preparing, rows: RowStore, namespace: Namespace) -> None:
        self._coordinator, self._rows, self._namespace = coordinator, rows, namespace

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        """Two steps, each a batch. Raises StoreUnreachable if the rows cannot be asked: the claims stay unproven."""
        token = new_id()
        reading, prepared = self._coordinator.prepare(plans, owner, token)
        if reading.quiet:
            return reading, prepared
        moves = {
            reply.schedule_id: self._move(made, reply, token)
            for made, reply in zip(plans, prepared, strict=True)
            if reply.verdict is Verdict.COMMITTED
        }
        decided = self._advance(list(moves.values()), owner)
        replies = [
            self._reply(made, reply, decided.get(reply.schedule_id))
            for made, reply in zip(plans, prepared, strict=True)
        ]
        replies = self._within_bounds(plans, replies, owner, token, reading)
        lost = [
            Hold(key, owner)
            for schedule_id, move in moves.items()
            if decided[schedule_id][0] is not Verdict.COMMITTED
            for key, _ in move.fires
        ]
        if lost:
            self._coordinator.discard(lost, token)
        return reading, replies

    def prove(self, fires: Sequence[Fire]) -> Mapping[FireKey, bool]:
        """Ask the rows about entries that carry a proof; what is refuted is discarded."""
        open_ones = [fire for fire in fires if fire.proof is not None]
        proven = {fire.key: True for fire in fires if fire.proof is None}
        if not open_ones:
            return proven
        try:
            answers = self._rows.prove(open_ones)
        except StoreUnreachable:
            raise
        except Unreachable as exc:
            raise StoreUnreachable(self._rows.name, str(exc)) from exc
        proven.update((fire.key, answer) for fire, answer in zip(open_ones, answers, strict=True))
        for fire in open_ones:
            if not proven[fire.key] and fire.proof is not None:
                self._coordinator.discard([Hold(fire.key, fire.owner, fire.tries)], fire.proof.token)
        return proven

    def _within_bounds(
        self, plans: Sequence[Plan], replies: Sequence[CommitReply], owner: str, token: str, reading: Reading
    ) -> list[CommitReply]:
        """Leave out the fires that ``max_fires`` had no room for: the row knows, so it is asked."""
        bounded: list[Fire] = []
        for made, reply in zip(plans, replies, strict=True):
            if made.max_fires is None or reply.verdict is not Verdict.COMMITTED:
                continue
            proof = Proof(token, made.to_json())
            bounded.extend(
                Fire(
                    key=FireKey(made.schedule_id, fire.due_at),
                    name=made.name,
                    kind=made.kind,
                    origin=fire.origin,
                    owner=owner,
                    owned_at=reading.now,
                    committed_at=reading.now,
                    recover=made.recover,
                    store=made.store,
                    proof=proof,
                )
                for fire in reply.fires
            )
        if not bounded:
            return list(replies)
        room = self.prove(bounded)
        return [
            replace(
                reply,
                fires=tuple(fire for fire in reply.fires if room.get(FireKey(reply.schedule_id, fire.due_at), True)),
            )
            for reply in replies
        ]

    def _move(self, made: Plan, reply: CommitReply, token: str) -> Advance:
        keys = [FireKey(made.schedule_id, fire.due_at) for fire in reply.fires]
        return Advance(plan=made, token=token, fires=tuple((key, self._namespace.fire_id(key)) for key in keys))

    def _advance(self, moves: Sequence[Advance], owner: str) -> dict[str, tuple[Verdict, object]]:
        if not moves:
            return {}
        try:
            outcomes = self._rows.advance(moves, owner)
        except StoreUnreachable:
            raise
        except Unreachable as exc:
            raise StoreUnreachable(self._rows.name, str(exc)) from exc
        return {move.plan.schedule_id: outcome for move, outcome in zip(moves, outcomes, strict=True)}

    @staticmethod
    def _reply(made: Plan, prepared: CommitReply, decided: tuple[Verdict, object] | None) -> CommitReply:
        if decided is None:
            return prepared
        verdict, mark = decided
        if verdict is Verdict.COMMITTED:
            return prepared
        return replace(prepared, verdict=verdict, mark=mark, fires=())  # type: ignore[arg-type]


class Ledgers:
    """The ledger of each store, by the store's name."""

    def __init__(self, shared: Ledger, others: Mapping[str, Ledger] | None = None) -> None:
        self._shared = shared
        self._others = dict(others or {})

    def of(self, store: str) -> Ledger:
        """The ledger of one store: the coordinator's own, unless the store has another."""
        return self._others.get(store, self._shared)


def row_ledgers(coordinator: Coordinator, rows: Sequence[RowStore], namespace: Namespace) -> dict[str, Ledger]:
    """A ledger for each store whose rows decide, by its name.

    Raises TypeError for a coordinator that cannot hold claims for rows."""
    if not rows:
        return {}
    if not isinstance(coordinator, Preparing):
        raise TypeError(f"{type(coordinator).__name__} cannot coordinate schedules whose rows decide")
    return {store.name: RowLedger(coordinator, store, namespace) for store in rows}
