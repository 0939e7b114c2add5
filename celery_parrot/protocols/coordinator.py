"""Where beats and workers agree. Each method's docstring is its contract.

One method is one atomic operation of the backend and takes a batch. "Someone else won" is a value;
"I could not ask" is :exc:`~celery_parrot.errors.Unreachable` (the call may or may not have been carried out,
so every method here may be repeated safely with the same arguments); a coordinator that forgot what this
process knew raises :exc:`~celery_parrot.errors.MemoryLost` and has done nothing.

Every coordinator call also

* returns or carries a :class:`Reading`, taken by the coordinator's own clock;
* touches one common key. A call that finds it untouched for :attr:`Timing.untouched` seconds sets ``judge_from`` to
  now + one lease time. Before ``judge_from`` no call, Start included, treats a lease, a heartbeat, an age or a
  deadline as lapsed. Found untouched for half of that, no heartbeat or age of a claim is judged for another half, in
  which every living beat is heard again;
* compares the epoch the process knows with the stored one, and the server's identity with the one the epoch was
  made on. A process that knows none yet (it has not attached) adopts the stored one, as :meth:`Coordinator.attach`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from celery_parrot.model.fire import Fire, FireKey, FireRecord
from celery_parrot.model.plan import Plan
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols.outbox import CommitReply, Drop, Hold, Mark, Registration, SweepReply
from celery_parrot.protocols.runs import Delivery, FinishReply, Lease, Memory, Outcome, Reaped, Running, StartReply
from celery_parrot.protocols.timing import Reading, Timing


class Coordinator(Protocol):
    """Where beats and workers agree. See the module's text for what every call does besides."""

    timing: Timing

    # -- memory --

    def attach(self) -> Reading:
        """Adopt the stored epoch, or create one if the coordinator is empty, and know it from now on.

        A server that changed but kept its data may lack the last writes: a new epoch is made, quiet for one lease
        time, as by :meth:`remember` with nothing to remember."""
        ...

    def remember(self, memory: Memory) -> Reading:
        """After :exc:`MemoryLost`, from a beat: put back what it knows, and adopt or create an epoch.

        Creates a new epoch with ``quiet_until`` = now + one lease time if there is none or the server changed.
        Otherwise joins the epoch that another process made (and extends quiet only if nobody remembered into it yet).
        A mark is set to the later of stored and remembered, but a mark that nothing was decided from since it was
        registered gives way to the remembered one. A mark that belongs to another ``when`` than the stored one is
        ignored. A remembered outbox entry is added unless its claim exists.
        """
        ...

    def remember_running(self, running: Sequence[Running]) -> Reading:
        """After :exc:`MemoryLost`, from a worker: as :meth:`remember`, for fires that run there, with their tokens.

        A claim that exists and is terminal or belongs to another token is left alone."""
        ...

    # -- beats --

    def register(self, registrations: Sequence[Registration]) -> Sequence[Mark]:
        """The shared mark of each, created or moved as :class:`Registration` says; first come wins. In order."""
        ...

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        """Claim the planned fires, put them in the outbox, record the rest as not fired, move the mark.

        Per plan all or nothing, and only if the mark equals ``expected_mark``; nothing at all while quiet (every
        plan is then ``MOVED`` with its mark unchanged, and ``reading.quiet`` says why). Counts as a heartbeat of
        ``owner``. After a lost reply the repeat answers ``MOVED``; the fires are then the owner's own in the next
        sweep.
        """
        ...

    def renew(self, holds: Sequence[Hold]) -> Sequence[bool]:
        """Make each claim young again; false where the owner or ``tries`` differ or it is no longer pending."""
        ...

    def confirm(self, holds: Sequence[Hold], deadlines: Sequence[datetime | None] | None = None) -> Sequence[bool]:
        """The fire reached the broker: ``sent``, out of the outbox, ``last_run`` and ``run_count``, history.

        ``deadlines``: until when each must have been started (the same as in its message's header), None where there
        is no such instant; left out: none has one.

        False where the claim is not pending under this hold any more (a worker's Start or a takeover was first)."""
        ...

    def drop(self, drops: Sequence[Drop]) -> Sequence[bool]:
        """End pending fires without sending: outcome, out of the outbox, history; false as :meth:`renew`.
        Returns what ``max_fires`` had reserved for it. A failure counts as one in :meth:`finish`."""
        ...

    def sweep(self, beat: Beat, *, offset: int = 0, limit: int = 1000) -> SweepReply:
        """A heartbeat of ``beat``, and a look at outbox and line, at most ``limit`` of each past ``offset``. Forgets
        beats silent for an hour."""
        ...

    def take(self, holds: Sequence[Hold], owner: str) -> Sequence[Fire | None]:
        """Pass claims to ``owner`` with ``tries`` + 1, each only if still exactly as in its hold and, judged again
        now, still takeable; None where not."""
        ...

    def reap(self, *, limit: int = 500, holding: bool = False) -> Sequence[Reaped]:
        """End fires that show no sign of life, at most ``limit``. Nothing before ``judge_from``. In this order:

        * running, and the lease lapsed and was not put back within the last two lease times: ``abandoned``, reason
          :data:`~.runs.WORKER_LOST`;
        * running with ``silent_after``, and no progress for that long since start or the last
          :class:`~.runs.Progress`: ``abandoned``, reason :data:`~.runs.SILENT`;
        * sent, and not started by its queue deadline: ``expired``, reason :data:`~.runs.QUEUE_DEADLINE`; without a
          deadline, not started for :attr:`Timing.unknown_after`: ``unknown``, not counted, and it runs if it should
          start after all;
        * waiting beyond its wait deadline: ``error`` (:class:`~.limits.Limits`);
        * pending, granted its limits, and not sent by its wait deadline, nor within :attr:`Timing.send_within` of the
          grant: ``missed``, reason ``too_late``, not counted: no beat can send it. One that its owner took or renewed
          within :attr:`Timing.takeover_after`, or that a worker has reserved, is left alone; without a wait deadline
          there is no bound;
        * reserved by a worker whose reservation lapsed: pending again as the next attempt, ``again``.

        ``abandoned`` counts as a failure, see :meth:`finish`. Where the fire was committed with ``recover`` and has not
        been recovered yet, it is then put back into the outbox as the next attempt, takeable at once, in the same
        step; it has released its limits and asks for them again. With ``holding``, only what holds limits or waits."""
        ...

    def leave(self, owner: str) -> None:
        """Forget a beat that stops in good order; its pending claims become takeable at once."""
        ...

    # -- workers --

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]:
        """Open each fire for its delivery. In this order:

        1. quiet: ``QUIET``.
        2. unknown claim: a put-back copy, and a fire that has ended by the history, is a ``DUPLICATE``; any other
           creates the claim, then 7 and 8; but one that was sent holding limits does not run: after 7 it is put into
           the outbox as its next attempt, takeable at once, so that a beat asks for them again: ``ASKS_AGAIN``.
        3. ended: ``DUPLICATE`` (``unknown`` is no end: it runs after all).
        4. ``(attempt, retries)`` of the message lower than the claim's ``(sent_as, retries)``: ``DUPLICATE``.
           Higher: the next attempt, runs at once, whatever the lease of the one before.
        5. running under this token: ``RUN`` again, nothing changes.
        6. running under another token: lease live (or not yet to be judged): a put-back copy whose predecessor
           renewed since (the lease is truly live) is a ``DUPLICATE``, everything else is ``PUT_BACK`` and noted on
           the claim. Lease lapsed: the next attempt, runs.
        7. over its deadline (the claim's; the message's where there was no claim): ``EXPIRED``, recorded.
        8. pending, waiting or sent: runs. Pending counts as confirmed.
        """
        ...

    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]:
        """One more lease time for each; false where the token is not the running one any more. A lease that comes
        with :class:`~.runs.Progress` is noted as a sign of progress, now; a renewal alone is none."""
        ...

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]:
        """Record each outcome, only from ``running`` and with the right token: claim, run state, history, release.

        An empty token ends a fire that no worker is running (revoked in the queue, task unknown): from ``pending``,
        ``waiting`` or ``sent`` only.
        With status ``SENT`` (the task retries) the fire goes back to ``sent`` without a lease and expects a message
        with one more retry (an older one is then a duplicate); if its next attempt has begun already, nothing
        changes and the answer is ``RECORDED``. Repeating an outcome whose reply was lost answers ``RECORDED``. A late
        one becomes ``late_result`` of the history entry and changes nothing else.

        Success clears ``last_error`` and the failure count. ``error``, ``target_missing`` and ``abandoned`` set
        ``last_status`` and ``last_error``, and count unless ``counted`` is false. Other outcomes leave the run state.

        The failure with which the count reaches :attr:`Timing.max_failures` (or is beyond it, after that was lowered)
        holds the schedule by ``failures`` in the same step, unless it is held already: by a person it stays so. With
        the hold goes one alert; failures that end while it is held count, and alert nobody. Release clears the count.
        The same for :meth:`reap` and :meth:`drop`. Of schedules whose run state is not here, their rows decide. A loss
        of memory loses the count; the hold is put back with the mark, by a beat that had learned of it.

        If ``tells`` of the fire names it, a parcel is queued in the same step (:mod:`~.deliveries`): for ``success``,
        ``failure`` (``error``, ``target_missing``, ``abandoned``; counted or not; not while ``recover`` sends it once
        more) and ``missed``. Skipped, expired and unknown fires, in-flight skips among them, tell nobody.
        """
        ...

    # -- reading --

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        """History of one schedule, newest due time first, in-flight fires included, strictly before ``before``."""
        ...

    def run_states(self, schedule_ids: Sequence[str]) -> Mapping[str, RunState]:
        """Run state of each schedule that has one."""
        ...

    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]:
        """The claims of these fires, as they are."""
        ...

    def beats(self) -> Sequence[Beat]:
        """Beats seen within the last hour; living ones were seen within :attr:`Timing.heartbeat`."""
        ...

    def close(self) -> None: ...
