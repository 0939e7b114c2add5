"""Watches the server: notes what each call did there, and says at once where a rule of the protocol was broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from celery_parrot.coordination.memory import MemoryServer
from celery_parrot.coordination.memory.space import MemorySpace
from celery_parrot.coordination.rules.space import Claim
from celery_parrot.model.fire import FireKey, Namespace, Status
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import FinishVerdict, Grant, StartVerdict, Timing
from tests.simulation.history import Decision, Flush, History
from tests.simulation.limited import Limited
from tests.simulation.world import BASE, World

_EPSILON = 0.001


def seconds_of(instant: datetime) -> float:
    return (instant - BASE).total_seconds()


class Witness:
    """:meth:`carried_out` replaces the bare call at the server."""

    def __init__(
        self, world: World, history: History, server: MemoryServer, namespace: Namespace, timing: Timing
    ) -> None:
        self.world, self.history = world, history
        self._server, self._namespace, self.timing = server, namespace, timing
        self._touched: float | None = None
        self._gap_end = float("-inf")
        self.limited: Limited | None = None
        self._notes: Mapping[str, Callable[[str, tuple[Any, ...], Any], None]] = {
            "register": self._register,
            "commit": self._commit,
            "drop": self._drop,
            "renew_leases": self._renew_leases,
            "finish": self._finish,
            "remember": self._remember,
            "request": self._request,
        }

    @property
    def now(self) -> float:
        return self.world.seconds

    def space(self) -> MemorySpace:
        with self._server.space(self._namespace, self.timing) as space:
            return space

    def claim(self, key: FireKey) -> Claim | None:
        return self.space().claims.get(key)

    def carried_out(self, who: str, name: str, call: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """Make the call, note what it did; raises what it raises."""
        if self.limited is None or not self.limited.on:
            return self._noted(who, name, call, args)
        before = self.limited.granted(self.space())
        answer = self._noted(who, name, call, args)
        if not self.history.flushes:
            for text in self.limited.look(self.space(), before, name == "reap"):
                self.history.wrong(self.now, text)
        return answer

    def _noted(self, who: str, name: str, call: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        if name == "start":
            before = [self._runner(delivery.key) for delivery in args[0]]
            answer = call()
            self._touch()
            self._start(who, args[0], answer, before)
        elif name == "take":
            claims = [self._seen(hold.key) for hold in args[0]]
            answer = call()
            self._touch()
            self._take(args, answer, claims)
        elif name == "reap":
            running = {key: c.fire.token for key, c in self.space().claims.items() if c.fire.token}
            answer = call()
            self._touch()
            self._reap(answer, running)
        else:
            answer = call()
            self._touch()
            note = self._notes.get(name)
            if note is not None:
                note(who, args, answer)
        return answer

    def flushed(self, in_broker: frozenset[FireKey]) -> None:
        open_ = {key for key, log in self.history.fires.items() if log.committed and not log.outcomes}
        self.history.flushes.append(Flush(self.now, frozenset(open_ | in_broker)))
        self._touched, self._gap_end = None, float("-inf")

    # -- rules --

    def publishing(self, who: str, key: FireKey) -> None:
        """A beat begins to send a fire's message: only its owner may, while it is pending."""
        claim = self.claim(key)
        # One that sent it before, in doubt, may have been heard after all: then a worker has it by now.
        heard = bool(self.history.fire(key).executions)
        if claim is not None and claim.fire.owner == who and (claim.fire.status is not Status.SENT or heard):
            return
        if self.history.flushed_within(self.now - self.timing.heartbeat, self.now):
            return
        state = "no claim" if claim is None else f"{claim.fire.status}, owner {claim.fire.owner}"
        self.history.wrong(self.now, f"{who} sends {key.text}, which is not its own to send: {state}")

    def _touch(self) -> None:
        if self._touched is not None and self.now - self._touched >= self.timing.untouched:
            self._gap_end = self.now
            self.history.silences.append(self.now)
        self._touched = self.now

    def _lapse(self, what: str, key: FireKey, token: str) -> None:
        """Somebody acted on a lease as on a lapsed one."""
        grants, holder = self.history.leases.get(token, []), self.history.holders.get(token, "")
        if not grants or self.history.flushed_within(grants[-1], self.now):
            return
        if self.now - grants[-1] < self.timing.lease - _EPSILON:
            self.history.wrong(self.now, f"{what} {key.text} while the lease of {token} is live")
        elif self.now - self._gap_end < self.timing.lease - _EPSILON:
            self.history.wrong(self.now, f"{what} {key.text} before anybody may be judged")
        elif holder in self.history.lives and self.history.lives[holder].well(grants[-1], self.now):
            self.history.wrong(self.now, f"{what} {key.text} although {holder} is well and runs it")

    def _runner(self, key: FireKey) -> tuple[str, tuple[int, int]]:
        claim = self.claim(key)
        if claim is None or claim.fire.status is not Status.RUNNING:
            return "", (0, 0)
        return claim.fire.token, (claim.fire.sent_as, claim.fire.retries)

    def _seen(self, key: FireKey) -> tuple[bool, float] | None:
        claim = self.claim(key)
        return None if claim is None else (claim.free, seconds_of(claim.fire.owned_at))

    # -- notes --

    def _register(self, who: str, args: tuple[Any, ...], marks: Any) -> None:
        for mark in marks:
            self.history.first_marks.setdefault(mark.schedule_id, mark.last_due)
            if seconds_of(mark.last_due) == self.now:
                self.history.afresh.append(self.now)

    def _commit(self, who: str, args: tuple[Any, ...], answer: Any) -> None:
        for made, reply in zip(args[0], answer[1], strict=True):
            if reply.verdict is not Verdict.COMMITTED:
                continue
            self.history.decisions.setdefault(made.schedule_id, []).append(Decision(self.now, who, made, reply))
            for fire in reply.fires:
                self.history.fire(FireKey(made.schedule_id, fire.due_at)).committed.append((self.now, who))

    def _take(self, args: tuple[Any, ...], answer: Any, before: Sequence[tuple[bool, float] | None]) -> None:
        holds, taker = args
        for hold, fire, seen in zip(holds, answer, before, strict=True):
            if fire is None or hold.owner == taker or seen is None:
                continue
            free, owned_at = seen
            life = self.history.lives.get(hold.owner)
            if free or life is None or self.history.flushed_within(owned_at, self.now):
                continue
            if self.now - self._gap_end < self.timing.lease - _EPSILON:
                self.history.wrong(self.now, f"{taker} takes {hold.key.text} before anybody may be judged")
            since = min(owned_at, self.now - self.timing.heartbeat - 1.5)
            if life.well(since, self.now) and not self.history.broker_trouble_within(since, self.now):
                self.history.wrong(self.now, f"{taker} takes {hold.key.text} from {hold.owner}, which is well")

    def _drop(self, who: str, args: tuple[Any, ...], answer: Any) -> None:
        for drop, done in zip(args[0], answer, strict=True):
            if done:
                self.ended(drop.hold.key, drop.status, "")

    def _start(self, who: str, deliveries: Any, answer: Any, before: Sequence[tuple[str, tuple[int, int]]]) -> None:
        for delivery, reply, (runner, newest) in zip(deliveries, answer, before, strict=True):
            if runner == delivery.token and reply.verdict not in (StartVerdict.RUN, StartVerdict.QUIET):
                self.history.wrong(self.now, f"{delivery.token} asks again and is told {reply.verdict}")
            if reply.verdict is StartVerdict.ASKS_AGAIN:
                self.history.fire(delivery.key).asked_again += 1
            elif reply.verdict is StartVerdict.EXPIRED:
                self.history.fire(delivery.key).expired += 1
            if reply.verdict is not StartVerdict.RUN:
                continue
            message = (delivery.attempt, delivery.retries)
            if runner and runner != delivery.token and message <= newest:
                self._lapse(f"{who} starts", delivery.key, runner)
            self.history.holders[delivery.token] = who
            if runner != delivery.token:
                self.history.leases.setdefault(delivery.token, []).append(self.now)

    def _renew_leases(self, who: str, args: tuple[Any, ...], answer: Any) -> None:
        for lease, granted in zip(args[0], answer, strict=True):
            if granted:
                self.history.leases.setdefault(lease.token, []).append(self.now)

    def _finish(self, who: str, args: tuple[Any, ...], answer: Any) -> None:
        for outcome, reply in zip(args[0], answer, strict=True):
            if reply.verdict is not FinishVerdict.RECORDED:
                continue
            token = outcome.lease.token
            for execution in self.history.fire(outcome.lease.key).executions:
                if execution.token == token and execution.recorded is None:
                    execution.recorded = self.now
            if outcome.status.terminal:
                self.ended(outcome.lease.key, outcome.status, token)

    def _reap(self, answer: Any, running: Mapping[FireKey, str]) -> None:
        for reaped in answer:
            if reaped.fire.status is Status.ABANDONED:
                self._lapse("a beat reaps", reaped.fire.key, running.get(reaped.fire.key, ""))
            self.ended(reaped.fire.key, reaped.fire.status, "")

    def _request(self, who: str, args: tuple[Any, ...], answer: Any) -> None:
        for request, reply in zip(args[0], answer, strict=True):
            claim = self.claim(request.hold.key)
            if reply.grant is Grant.SKIPPED and claim is not None and not self.history.fire(request.hold.key).skipped:
                self.history.fire(request.hold.key).skipped = True
                self.ended(request.hold.key, claim.fire.status, "")

    def _remember(self, who: str, args: tuple[Any, ...], answer: Any) -> None:
        self.history.remembered.append((self.now, who))

    def ended(self, key: FireKey, status: Status, token: str) -> None:
        """An outcome was recorded: the only one, unless memory was lost in between."""
        outcomes = self.history.fire(key).outcomes
        if outcomes:
            at, before, by = outcomes[-1]
            if (before, by) == (status, token) and token:
                return  # the reply to the first was lost
            if not self.history.flushed_within(at, self.now):
                self.history.wrong(self.now, f"{key.text} was {before} and becomes {status}")
        outcomes.append((self.now, status, token))
