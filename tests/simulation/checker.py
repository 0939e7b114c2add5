"""Says whether a history is right. What is forgiven, and why, is all in :class:`Forgiveness`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime

from celery_parrot.model.fire import FireKey, Status
from celery_parrot.planning import sending_at
from celery_parrot.stores.memory import Definition
from tests.simulation.history import Decision, Execution, FireLog, Flush, History
from tests.simulation.witness import Witness, seconds_of

_NEVER = float("-inf")
_LAST_SECOND = 2.0
_EARLY = 0.051
"""Half of the slowest call that a beat sets its idea of the coordinator's clock by."""
_AFTER_TROUBLE = 25.0
_NOT_SENT = frozenset({Status.MISSED, Status.SKIPPED})


class Forgiveness:
    """DESIGN 1: "If Redis forgets, what was in flight in the last second may repeat or lose its outcome."

    Precisely: let T be a loss of memory, and T - S the most recent instant at which a beat that lived to put back
    what it knew had last been answered, less :data:`_LAST_SECOND`. Forgiven are fires that at T had a message in the
    broker, or none of whose outcomes is older than T - S, and due times after T - S until that beat put back. Without
    such a beat nobody knew anything, and everything until the next loss is forgiven.

    The other exception, "once-only holds for fires with a live lease", is judged where a lease is acted upon
    (:class:`~tests.simulation.witness.Witness`) and in :meth:`Checker.twice`.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._losses = [(flush, *self._span(flush)) for flush in history.flushes]

    def _span(self, flush: Flush) -> tuple[float, float]:
        """From which instant on, and until which, due times around a loss are forgiven."""
        later = [other.at for other in self._history.flushes if other.at > flush.at]
        until = min(later, default=float("inf"))
        survivors = [(at, who) for at, who in self._history.remembered if flush.at <= at < until]
        known, mended = _NEVER, float("inf")
        for at, who in survivors:
            contacts = self._history.lives[who].contacts
            before = bisect_right(contacts, flush.at)
            if before and contacts[before - 1] > known:
                known, mended = contacts[before - 1], at
        return known - _LAST_SECOND, mended + _LAST_SECOND

    def fire(self, key: FireKey, since: float, until: float) -> bool:
        """Whether a loss between two instants explains that a fire decided at ``since`` happened again."""
        log = self._history.fires.get(key)
        outcomes = log.outcomes if log is not None else []
        return any(
            since <= flush.at <= until
            and (key in flush.in_flight or since >= known or not any(at < known for at, _, _ in outcomes))
            for flush, known, _ in self._losses
        )

    def lost(self, since: float) -> bool:
        """Whether a loss explains that a fire committed at ``since`` was never heard of again: only where nobody who
        lived had seen it in the outbox. What somebody had seen may repeat, but must be put back."""
        return any(since <= flush.at and since >= known for flush, known, _ in self._losses)

    def due(self, at: float) -> bool:
        """Whether a loss explains that a due time was never decided: it came around the loss, or a beat that started
        on an empty coordinator went on at once (DESIGN 14) and knew nothing of due times still to be decided."""
        for flush, known, mended in self._losses:
            if known <= at <= mended or any(
                flush.at <= fresh <= mended and at <= fresh for fresh in self._history.afresh
            ):
                return True
        return False


class Checker:
    def __init__(self, history: History, definitions: Sequence[Definition], witness: Witness) -> None:
        self._history, self._definitions, self._witness = history, definitions, witness
        self._forgiven = Forgiveness(history)
        self._end = witness.now

    def wrong(self, text: str) -> None:
        self._history.violations.append(text)

    # -- every due time is decided once --

    def due_times(self, definition: Definition) -> None:
        name, trigger = definition.schedule_id, definition.trigger
        assert trigger is not None
        decided: dict[datetime, float] = {}
        for one in self._history.decisions.get(name, ()):
            self._decision(definition, one, decided)
        first = self._history.first_marks.get(name)
        due_at = trigger.next_after(first) if first is not None else None
        while due_at is not None:
            if due_at not in decided and not self._forgiven.due(seconds_of(due_at)):
                self.wrong(f"{name}@{seconds_of(due_at):g} is neither fired nor missed nor skipped")
            due_at = trigger.next_after(due_at)

    def _decision(self, definition: Definition, one: Decision, decided: dict[datetime, float]) -> None:
        name, trigger, plan = definition.schedule_id, definition.trigger, one.plan
        assert trigger is not None
        fires = {fire.due_at for fire in plan.fires}
        said = len(fires) + sum(gone.count for gone in plan.not_fired)
        due_at, met = trigger.next_after(plan.expected_mark), 0
        while due_at is not None and due_at <= plan.new_mark:
            met += 1
            ranges = sum(gone.first <= due_at <= gone.last for gone in plan.not_fired)
            if ranges + (due_at in fires) != 1:
                self.wrong(f"{name}@{seconds_of(due_at):g} has {ranges + (due_at in fires)} fates in one plan")
            key = FireKey(name, due_at)
            again = decided.get(due_at)
            if again is not None and not self._forgiven.fire(key, again, one.at):
                self.wrong(f"{name}@{seconds_of(due_at):g} is decided at {again:.3f} and at {one.at:.3f}")
            decided[due_at] = one.at
            due_at = trigger.next_after(due_at)
        if met != said:
            self.wrong(f"{name}: a plan of {met} due times says {said}")

    # -- every fire has one end --

    def fires(self) -> None:
        for log in self._history.fires.values():
            if len({publish.task_id for publish in log.published}) > 1 + log.asked_again:
                self.wrong(f"{log.key.text} was sent with different task ids")
            since = log.committed[0][0] if log.committed else self._first_sign(log)
            if self._forgiven.fire(log.key, since, self._end):
                # A put-back copy that meets an unknown claim is a duplicate by rule: a fire whose worker died, and
                # that waits for its lease to lapse when memory is lost, does not run again.
                heard_of = log.executions or log.outcomes or log.swallowed or log.put_back or log.expired
                if not heard_of and not self._forgiven.lost(since):
                    self.wrong(f"{log.key.text} is lost with the coordinator's memory, though others had seen it")
                continue
            self._ends(log)
            self._once(log)

    def _first_sign(self, log: FireLog) -> float:
        signs = [publish.at for publish in log.published] + [one.at for one in log.executions]
        if signs:
            self.wrong(f"{log.key.text} is sent or runs but was never committed")
        return min(signs, default=0.0)

    def _ends(self, log: FireLog) -> None:
        status = log.outcomes[-1][1] if log.outcomes else None
        ended = [one for one in log.executions if one.ended is not None]
        if status is None:
            if not log.swallowed:
                claim = self._witness.claim(log.key)
                state = "forgotten" if claim is None else claim.fire.status
                self.wrong(f"{log.key.text} has no outcome, it is {state} with {len(log.executions)} executions")
        elif status in _NOT_SENT and log.executions:
            self.wrong(f"{log.key.text} is {status} and was run")
        elif status is Status.SUCCESS and not ended and not log.skipped:
            self.wrong(f"{log.key.text} is a success and no body came to its end")
        if status is not None and status not in _NOT_SENT and log.executions and not log.published:
            self.wrong(f"{log.key.text} ran without a message")

    def _once(self, log: FireLog) -> None:
        last: dict[int, Execution] = {}
        for one in sorted(log.executions, key=lambda execution: execution.at):
            before = last.get(one.retries)
            if before is not None and not self.twice(before, one):
                self.wrong(f"{log.key.text} runs on {before.worker} and again on {one.worker} at {one.at:.3f}")
            last[one.retries] = one

    def twice(self, first: Execution, second: Execution) -> bool:
        """Whether a body may begin again: only where its worker died, was stopped or cut off before the outcome was
        recorded, and its lease had lapsed."""
        if first.recorded is not None and first.recorded <= second.at:
            return False
        grants = [at for at in self._history.leases.get(first.token, ()) if at <= second.at]
        lapsed = bool(grants) and second.at - grants[-1] >= self._witness.timing.lease - 0.1
        return lapsed and self._history.lives[first.worker].troubled(grants[-1], second.at)

    # -- in time --

    def in_time(self, definition: Definition) -> None:
        """Where nothing is wrong, a fire is sent at once; where only its beat died, 3 s and a tick later."""
        trigger = definition.trigger
        assert trigger is not None
        if self._witness.limited is not None and self._witness.limited.of(definition.schedule_id):
            return  # it may have to wait for its turn
        for log in self._history.fires.values():
            if log.key.schedule_id != definition.schedule_id or not log.committed or not log.published:
                continue
            at, owner = log.committed[0]
            sent = min(publish.at for publish in log.published)
            due = sending_at(definition.schedule, trigger, log.key.due_at)
            if sent < seconds_of(due) - _EARLY:
                self.wrong(f"{log.key.text} is sent before it is due")
            died = self._history.lives[owner].died
            if died is not None and at <= died < sent:
                bound = died + self._witness.timing.heartbeat + 1.3
                if sent > bound and self._calm(at - 1.0, bound, but=owner):
                    self.wrong(f"{log.key.text}, left by {owner} at {died:.3f}, is sent at {sent:.3f}")
            bound = seconds_of(due) + 1.3
            if sent > bound and (died is None or died > sent) and self._calm(seconds_of(due) - 3.0, bound):
                self.wrong(f"{log.key.text} is sent at {sent:.3f} although nothing is wrong")

    def _calm(self, since: float, until: float, but: str = "") -> bool:
        """Whether coordinator, broker and every beat (``but`` one) were well for a span that one beat lived through."""
        history = self._history
        if since < 2.0 or history.outage_within(since - _AFTER_TROUBLE, until):
            return False
        if history.flushed_within(since - _AFTER_TROUBLE, until) or history.broker_trouble_within(since - 6.0, until):
            return False
        if any(since - _AFTER_TROUBLE <= at <= until for at in history.other_servers + history.silences):
            return False
        others = [life for life in history.lives.values() if life.beat and life.name != but]
        if any(begin <= until and end >= since for life in others for begin, end in life.troubles):
            return False
        if any(life.died is not None and since <= life.died <= until for life in others):
            return False
        return any(life.well(since - 1.0, until) for life in others)

    # -- limits --

    def limits(self) -> None:
        """Nothing ran together that must not. Where memory was lost, what held a limit may have been forgotten."""
        limited = self._witness.limited
        if limited is not None and not self._history.flushes:
            for text in limited.together(self._history, self._witness.timing.lease):
                self.wrong(text)

    # -- the coordinator's own books --

    def books(self) -> None:
        if self._history.flushes:
            return
        space = self._witness.space()
        for definition in self._definitions:
            name, state = definition.schedule_id, space.states.get(definition.schedule_id)
            if state is None:
                continue
            records = list(space.entries.get(name, {}).values())
            decided = sum(
                len(one.plan.fires) - one.reply.lost + sum(gone.count for gone in one.plan.not_fired)
                for one in self._history.decisions.get(name, ())
            )
            limit = definition.schedule.policy.max_fires
            if limit is None and sum(record.count for record in records) != decided:
                self.wrong(f"{name}: {decided} due times were decided, history has {sum(r.count for r in records)}")
            sent = sum(record.sent_at is not None for record in records)
            if state.run.run_count != sent:
                self.wrong(f"{name}: run_count is {state.run.run_count}, {sent} fires were sent")
            if limit is not None and sent > limit:
                self.wrong(f"{name}: {sent} fires were sent, max_fires is {limit}")
        if space.outbox:
            self.wrong(f"the outbox still holds {len(space.outbox)} fires")


def check(history: History, definitions: Sequence[Definition], witness: Witness) -> None:
    """Append to ``history.violations`` all that is wrong."""
    checker = Checker(history, definitions, witness)
    for definition in definitions:
        checker.due_times(definition)
        checker.in_time(definition)
    checker.fires()
    checker.limits()
    checker.books()
