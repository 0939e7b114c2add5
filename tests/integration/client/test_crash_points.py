"""A beat dies between two of the steps of a fire whose commit a row decides; the next one goes on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from celery_parrot.runtime import faults
from tests.integration.beat.conftest import Mailbox
from tests.integration.client.conftest import APP, World, due_times
from tests.support.waiting import wait_until


@pytest.mark.parametrize("where", [faults.AFTER_PREPARE, faults.AFTER_COMMIT, faults.AFTER_SEND])
@pytest.mark.keeps_keys("a beat was killed")
def test_each_due_time_is_sent_once(make_world: Callable[..., World], mail: Mailbox, where: str, full: bool) -> None:
    """Claimed in Redis only, committed in SQL too, or sent and not confirmed."""
    if where == faults.AFTER_SEND and not full:
        pytest.skip("the long form has it, too (make long)")
    world = make_world()
    # The code's schedule must not be what dies.
    world.parrot.schedules.pause("in code")
    made = world.create("in db", "db", missed="catch_up")
    doomed = world.procs.beat(APP, env={**world.env, faults.CRASH: where})
    assert doomed.wait(30) == -9
    world.beat()
    found = due_times([mail.take("db", 30)])

    def enough() -> bool:
        """Eight in a row from the first on. What the dead beat had committed may come after later ones: a beat that
        begins when nobody was heard for a while judges no other for one lease time."""
        found.extend(due_times(mail.drain("db")))
        first = made.created_at.replace(microsecond=0) + timedelta(seconds=1)
        return {first + timedelta(seconds=step) for step in range(8)} <= set(found)

    wait_until(enough, "eight fires in a row", 45)
    # Sent, and dead before it could say so: the same fire is sent again under the same id, for workers to tell.
    doubled = len(found) - len(set(found))
    assert doubled == 0 if where != faults.AFTER_SEND else doubled <= 1
    ordered = sorted(set(found))
    assert ordered == [ordered[0] + timedelta(seconds=step) for step in range(len(ordered))], "none is lost"
    assert ordered[0] - made.created_at <= timedelta(seconds=1)
