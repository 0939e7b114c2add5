"""One experiment: beats and workers on a bench, a window of time, and its judgement."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import pytest

from celery_parrot.model.fire import FireRecord, Status
from tests.chaos.bench import APP, PATIENCE, Bench
from tests.chaos.journal import Due, Run, Verdict, Window, judge, show
from tests.chaos.ledger import open_ledger
from tests.support import figures
from tests.support.procs import Proc, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until, wall_clock

__all__ = ["APP", "PATIENCE", "TAKEOVER", "Lab", "chance", "instant_of_a_blow", "open_lab"]

#: Seconds after a window in which a second message would still come, where a beat died: after its heartbeat.
TAKEOVER = 4.0


class Lab(Bench):
    """Watches a window of time and judges what ran in it."""

    # --- wait ---

    def wait_for_runs(self, count: int, names: Collection[str] = (), timeout: float = PATIENCE) -> Sequence[Run]:
        """Wait until each schedule has run ``count`` times."""
        wanted = set(names or self._names)

        def enough() -> bool:
            found: dict[str, int] = dict.fromkeys(wanted, 0)
            for run in self.journal.runs():
                if run.what == "ran" and run.name in found:
                    found[run.name] += 1
            return all(number >= count for number in found.values())

        what = f"each of {len(wanted)} schedules to run {count} times"
        wait_until(enough, what, timeout, interval=0.1, explain=self.explain)
        return self.journal.runs()

    # --- look ---

    def deliveries(self, due: Due) -> list[str]:
        """The task ids of all messages of a due time that reached a worker."""
        return [message.task_id for message in self.journal.received() if message.due == due]

    def history(self, name: str, limit: int = 1000) -> Sequence[FireRecord]:
        """What the coordinator has recorded of a schedule."""
        assert self._servers is not None
        with open_ledger(self._servers.coordinator, self.name) as ledger:
            return ledger.fires(name, limit=limit)

    def missed(self, window: Window) -> set[Due]:
        """The due times of a window that the history records as missed, each once."""
        found: list[Due] = []
        for name in window.names:
            for record in self.history(name):
                if record.status is Status.MISSED:
                    found += [(name, due_at) for due_at in _range(record, window.every)]
        twice = {due for due in found if found.count(due) > 1}
        assert not twice, f"recorded as missed more than once: {sorted(twice)[:5]}"
        return set(found) & window.dues()

    def check_outcomes(self, window: Window) -> None:
        """The history has every due time of the window exactly once: a success, or missed."""
        wanted = window.dues()

        def wrong() -> list[str]:
            found: dict[Due, list[str]] = {due: [] for due in wanted}
            for name in window.names:
                for record in self.history(name):
                    for due_at in _range(record, window.every):
                        if (name, due_at) in found:
                            found[name, due_at].append(str(record.status))
            return [f"{show(due)}: {got or 'no entry'}" for due, got in found.items() if got not in _ENDED]

        def right() -> bool:
            faults[:] = wrong()
            return not faults

        faults: list[str] = []
        explain = lambda: "\n".join([f"{len(faults)} of {len(wanted)}", *faults[:10], self.explain()])  # noqa: E731
        wait_until(right, "one outcome for every due time", 20, interval=0.5, explain=explain)

    def wait_for_success(self, dues: Iterable[Due]) -> None:
        """Wait until the history says so of each."""
        wanted = set(dues)

        def all_succeeded() -> bool:
            names = {name for name, _ in wanted}
            done = {
                (name, record.due_at)
                for name in names
                for record in self.history(name)
                if record.status is Status.SUCCESS
            }
            return wanted <= done

        def explain() -> str:
            records = [record for name in {name for name, _ in wanted} for record in self.history(name)]
            return "\n".join([*(str(record) for record in records[:20]), self.explain(wanted)])

        wait_until(all_succeeded, f"{len(wanted)} fires to be recorded as success", 30, interval=0.3, explain=explain)

    # --- judge ---

    def window(self, first: int, seconds: int) -> Window:
        """A stretch of time that begins with a given second."""
        return Window(self._names, first, seconds, self.every)

    def over(self, window: Window, *, margin: float = 0.0) -> bool:
        """Whether it ends within ``margin`` seconds."""
        return wall_clock() > window.end - margin

    def open_window(self, seconds: int) -> Window:
        """Wait until every schedule has run, and begin to count with the next second."""
        self.wait_for_runs(1)
        return Window(self._names, int(wall_clock()) + 1, seconds, self.every)

    def close_window(
        self,
        window: Window,
        *,
        label: str,
        missed: Callable[[], Collection[Due]] = frozenset,
        may_repeat: Collection[Due] = frozenset(),
        patience: float = PATIENCE,
        afterwards: float = 1.5,
    ) -> Verdict:
        """Wait until every due time of it has run or was missed, and a while longer for what must not come. Judge.

        :param missed: asked for the due times that the history records as missed.
        :param afterwards: how much longer, in seconds.
        """
        self.at(window.end, "the end of the window")
        expected = window.dues() - set(may_repeat)

        def settled() -> bool:
            done = {run.due for run in self.journal.runs() if run.what == "ran" and run.scheduler == self.name}
            left = expected - done
            return not left or not left - set(missed())

        with contextlib.suppress(AssertionError):  # the judgement says which is lost
            wait_until(settled, "every due time to be run", patience, interval=0.2)
        self.at(max(wall_clock(), window.end) + afterwards, "whatever must not come to come")
        verdict = judge(
            window,
            self.journal.runs(),
            self.journal.received(),
            scheduler=self.name,
            excused=missed(),
            may_repeat=may_repeat,
        )
        seed = "" if self.seed is None else f" seed {self.seed}"
        self._say(f"{label}{seed}: {verdict.figures()}")
        return verdict

    def check(self, verdict: Verdict, *, put_back: bool = False) -> None:
        """Assert that it is exact; otherwise show what every process logged of the first offending due times.

        A guarded worker would hide that two beats had both claimed a fire, so a second message must have its reason.

        :param put_back: workers may have put messages back, because the coordinator was away or had forgotten.
        """
        verdict.assert_exact(self.explain)
        unexplained = sorted(set(verdict.repeated) - self.passed_on()) if not put_back else []
        assert not unexplained, (
            f"{len(unexplained)} fires were sent twice although no beat had taken them over: "
            f"{[show(due) for due in unexplained[:10]]}\n{self.explain(unexplained)}"
        )

    def check_each_sends(self, beats: Iterable[Proc]) -> None:
        """Every one of them has sent something, or does so when those that have are gone: whoever looks first at a due
        time takes it, so a fair share is a matter of luck."""
        everyone = list(beats)
        while idle := [beat for beat in everyone if not self.sent_by(beat)]:
            for beat in everyone:
                if beat not in idle and beat.alive:
                    beat.kill_group()
            wait_until(
                lambda idle=idle: any(self.sent_by(beat) for beat in idle),  # type: ignore[misc]
                f"one of {', '.join(beat.name for beat in idle)} to send something",
                PATIENCE,
                interval=0.1,
                explain=self.explain,
            )


_ENDED = (["success"], ["missed"])


def _range(record: FireRecord, every: int) -> list[datetime]:
    """The due times an entry stands for."""
    if record.count == 1 or record.until is None:
        return [record.due_at]
    return [record.due_at + timedelta(seconds=every * number) for number in range(record.count)]


@contextlib.contextmanager
def open_lab(
    procs: Procs, journal_server: PrivateRedis, journal_url: str, request: pytest.FixtureRequest
) -> Iterator[Lab]:
    """What the fixture ``lab`` is, in every folder that has one."""
    with journal_server.client() as client:
        lab = Lab(procs, client, journal_url, figures.teller(request))
        if hasattr(request.node, "callspec"):
            lab.seed = request.node.callspec.params.get("seed")
        yield lab
        for proc in procs.all:  # a worker's farewell takes seconds, and nobody asks for it any more
            proc.kill_group()


def chance(seed: int) -> random.Random:
    """The source of a test's random instants."""
    return random.Random(seed)


def instant_of_a_blow(rng: random.Random, seed: int, begin: int, end: int) -> float:
    """A random instant of a window; for every other seed one within the burst of work after a due time."""
    if seed % 2:
        return rng.randrange(begin, end) + rng.uniform(0.0, 0.25)
    return rng.uniform(begin, end)
