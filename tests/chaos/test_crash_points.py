"""A beat that is killed at the worst instants: between commit and send, and between send and confirm."""

from __future__ import annotations

import re
import signal
from datetime import datetime

import pytest

from tests.chaos.journal import Due
from tests.chaos.lab import PATIENCE, TAKEOVER, Lab
from tests.chaos.ledger import open_ledger
from tests.support.procs import Proc
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic, wait_until

TICKS = 20
TAKEOVER_AFTER = 10.0

#: A claim of a dead beat waits at most this long while another beat lives; and what a loaded machine adds to it.
WAITS_AT_MOST = 3.0
SLACK = 2.0

AFTER_COMMIT = {"PARROT_TEST_CRASH": "after-commit"}
AFTER_SEND = {"PARROT_TEST_CRASH": "after-send"}


def _crashed(proc: Proc) -> None:
    """Wait until its hook has killed it."""
    code = wait_until(lambda: proc.returncode, f"{proc.name} to crash", PATIENCE, explain=proc.tail)
    assert code == -signal.SIGKILL, f"{proc.name} ended with {code}\n{proc.tail()}"


def _taken_over(proc: Proc) -> set[Due]:
    """The due times that this beat took from the outbox of another, as it logged them."""
    found = re.findall(r"\[fire-taken-over\] (\S+) due (\S+): ", proc.text())
    return {(name, datetime.fromisoformat(due)) for name, due in found}


def test_killed_between_commit_and_send(lab: Lab, private_redis: PrivateRedis) -> None:
    """The fires that the dead beat had committed are sent by the other within 3 s, each with its own task id, and run
    once; due times after them do not wait."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    other = lab.beat()
    lab.worker()
    lab.wait_ready(other)
    window = lab.open_window(8)
    doomed = lab.beat(env=AFTER_COMMIT)
    _crashed(doomed)
    verdict = lab.close_window(window, label="killed between commit and send", afterwards=TAKEOVER)
    lab.check(verdict)
    taken = _taken_over(other) & window.dues()
    assert taken, f"nothing was taken over: the crash left nothing behind\n{lab.explain()}"
    waited = {due: verdict.executed[due][0].lateness for due in taken}
    lab.say(f"    {len(taken)} taken over, waited at most {max(waited.values()):.2f} s")
    late = {due: late for due, late in waited.items() if late > WAITS_AT_MOST + SLACK}
    assert not late, f"waited longer than {WAITS_AT_MOST:g} s: {late}\n{lab.explain(late)}"


def test_killed_between_commit_and_send_without_another(lab: Lab, private_redis: PrivateRedis) -> None:
    """Where no other beat lives, the next one to start sends them within ``parrot_takeover_after``. Meanwhile a person
    looks on: after a silence of everybody, for which a slow start is long enough, nobody is judged for a lease time."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    lab.worker()
    doomed = lab.beat(env=AFTER_COMMIT)
    _crashed(doomed)
    assert not lab.journal.received(), "it was to crash before its first send"
    started = monotonic()
    heir = lab.beat()
    with open_ledger(private_redis.url(), lab.name) as ledger:

        def beats() -> bool:
            ledger.attach()
            return heir.pid in lab.beats()

        wait_until(beats, "the heir to beat", PATIENCE, interval=0.1, explain=heir.tail)

    def all_taken() -> set[Due]:
        taken = _taken_over(heir)  # as far as they are in the log
        return taken if len(taken) >= TICKS else set()

    taken = wait_until(all_taken, "the fires to be taken over", PATIENCE, explain=lab.explain)
    assert len(taken) == TICKS
    wait_until(lambda: taken <= {run.due for run in lab.journal.runs()}, "them to run", PATIENCE, explain=lab.explain)
    assert monotonic() - started < TAKEOVER_AFTER + SLACK
    moment = int(min(due_at for _, due_at in taken).timestamp())
    window = lab.window(moment, 6)
    lab.check(lab.close_window(window, label="killed between commit and send, alone"))


def test_killed_between_send_and_confirm(lab: Lab, private_redis: PrivateRedis) -> None:
    """The message is out, the outbox does not know: it is sent again with the same task id within
    ``parrot_takeover_after``, and the worker, which finds both, runs it once."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    doomed = lab.beat(env=AFTER_SEND)
    _crashed(doomed)
    started = monotonic()
    heir = lab.beat()  # no worker yet: a Start would count as the confirm, and nothing would be sent again
    taken = wait_until(lambda: _taken_over(heir), "the fires to be taken over", PATIENCE, explain=lab.explain)
    assert monotonic() - started < TAKEOVER_AFTER + SLACK
    moment = int(min(due_at for _, due_at in taken).timestamp())
    lab.worker()
    window = lab.window(moment, 8)
    verdict = lab.close_window(window, label="killed between send and confirm")
    lab.check(verdict)
    twice = {due for due in taken if len(lab.deliveries(due)) > 1}
    assert twice, f"no message was repeated: the crash did not come after a send\n{lab.explain(taken)}"
    for due in twice:
        assert len(set(lab.deliveries(due))) == 1, "a repeated message has the same task id"


@pytest.mark.long_form
@pytest.mark.parametrize("crash", ["after-commit", "after-send"])
def test_every_beat_in_turn_crashes(lab: Lab, private_redis: PrivateRedis, crash: str) -> None:
    """One beat lives, another is started again and again only to die at the same point: nothing lost or doubled."""
    lab.set_up(private_redis.url(), private_redis.url(), ticks=TICKS)
    survivor = lab.beat()
    lab.worker()
    lab.wait_ready(survivor)
    window = lab.open_window(40)
    doomed = lab.beat(env={"PARROT_TEST_CRASH": crash})
    crashes = 0
    while True:
        _crashed(doomed)
        crashes += 1
        if lab.over(window, margin=5):
            break
        doomed.start()
    verdict = lab.close_window(window, label=f"{crashes} crashes {crash}", afterwards=TAKEOVER)
    lab.check(verdict)
    assert crashes > 3
