"""``parrot_allowed_tasks`` in a worker: messages that were sent by hand, or by a beat that knows no list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.model.allowed import AllowedTasks
from celery_parrot.model.fire import Status
from celery_parrot.model.plan import Plan, PlannedFire
from celery_parrot.protocols import Hold, Registration
from celery_parrot.runtime.worker import Permits
from tests.unit.runtime.worker.place import DUE, KEY, Make, Place, state_of

PERMITS = Permits(AllowedTasks(("t.good",)), {"agent": "agents.run"})


@pytest.fixture
def here(place: Make) -> Place:
    """An app with tasks that say that they ran."""
    made = place(permits=PERMITS)
    for name in ("t.good", "t.bad", "agents.run"):

        @made.app.task(shared=False, name=name)
        def body() -> str:
            return "ran"

    made.app.finalize()
    return made


def committed(here: Place) -> None:
    """A beat has committed and sent the fire."""
    before = DUE - timedelta(seconds=1)
    here.server.register([Registration(schedule_id="s", when="-", initial=before)])
    fires = (PlannedFire(DUE),)
    plan = Plan(schedule_id="s", name="s", kind="task", expected_mark=before, new_mark=DUE, fires=fires)
    here.server.commit([plan], "beat")
    assert here.server.confirm([Hold(KEY, "beat")], [None]) == [True]


def ended(here: Place) -> tuple[Status, str, str | None]:
    here.installed.sessions.get().lifecycle.flush(1.0)
    record = here.record()
    return record.status, record.reason, record.error


def test_an_allowed_task_runs(here: Place) -> None:
    assert state_of(here.run(here.app.tasks["t.good"])) is None
    assert here.record().output == "ran"


@pytest.mark.parametrize("late", [False, True])
def test_another_is_refused_once_and_for_all(here: Place, late: bool) -> None:
    """Its body does not run, its fire is an error with the reason, nothing is sent again."""
    here.app.tasks["t.bad"].acks_late = late
    committed(here)
    assert state_of(here.run(here.app.tasks["t.bad"])) == "IGNORED"
    status, reason, error = ended(here)
    assert (status, reason) == (Status.ERROR, "task not allowed")
    assert error == "NotAllowed: 't.bad' is not in parrot_allowed_tasks of this worker"
    assert here.published == []


@pytest.mark.parametrize(("kind", "task"), [("task", "agents.run"), ("other", "t.bad"), (["agent"], "agents.run")])
def test_a_kind_vouches_for_its_own_task_only(here: Place, kind: Any, task: str) -> None:
    assert state_of(here.run(here.app.tasks[task], kind=kind)) == "IGNORED"
    assert state_of(here.run(here.app.tasks["agents.run"], kind="agent", schedule_id="s2")) is None


@pytest.mark.parametrize(
    "request_",
    [
        {"callbacks": [{"task": "t.bad"}]},
        {"errbacks": [{"task": "t.bad"}]},
        {"chain": [{"task": "t.good"}, {"task": "celery.group", "kwargs": {"tasks": [{"task": "t.bad"}]}}]},
        {"chord": {"task": "t.bad"}},
        {"callbacks": ["t.bad"]},
    ],
)
def test_what_follows_is_looked_at(here: Place, request_: dict[str, Any]) -> None:
    committed(here)
    assert state_of(here.run(here.app.tasks["t.good"], request=request_)) == "IGNORED"
    assert ended(here)[1] == "task not allowed"


@pytest.mark.parametrize("header", [{"due_at": "never"}, {"attempt": "x"}, {"origin": "nobody"}, {"kind": 7}])
def test_a_header_that_cannot_be_read_opens_no_door(here: Place, header: dict[str, Any]) -> None:
    assert state_of(here.run(here.app.tasks["t.bad"], **header)) == "IGNORED"


def test_without_a_list_every_task_runs(place: Make) -> None:
    made = place()

    @made.app.task(shared=False, name="t.bad")
    def body() -> str:
        return "ran"

    made.app.finalize()
    assert state_of(made.run(body, request={"callbacks": None})) is None
