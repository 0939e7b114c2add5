"""Any header in a worker: the worker lives, and what is not allowed does not run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from celery_parrot.model.allowed import AllowedTasks
from celery_parrot.runtime.worker import Permits, _on_rejected, _on_revoked, _on_unknown
from celery_parrot.runtime.worker.headers import scheduler_of
from tests.support.fuzz import VALUES, changed, each, tried
from tests.unit.runtime.worker.place import DUE, NAME, Place, state_of

HEADER = {
    "scheduler": "unit", "schedule_id": "s", "name": "s", "due_at": DUE.isoformat(), "origin": "schedule",
    "kind": "task", "attempt": 1, "deadline": None, "nonce": "", "token": "t", "put_back": False, "limits": False,
    "override": "", "fire_id": "id",
}  # fmt: skip


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Any:
    place = Place(monkeypatch, permits=Permits(AllowedTasks(("good",)), {"agent": "agents.run"}))
    place.ran = []  # type: ignore[attr-defined]
    for name in ("good", "bad"):

        @place.app.task(shared=False, name=name, bind=True)
        def body(self: Any) -> None:
            place.ran.append(self.name)  # type: ignore[attr-defined]

    place.app.finalize()
    yield place
    place.down = True
    place.installed.sessions.stop(0.0)
    place.app.close()


def test_before_the_body(here: Any, full: bool) -> None:
    """The traced task ends as a task does: it ran, or it is ignored. No error of ours becomes its own."""

    def check(header: Any) -> None:
        for name in ("good", "bad"):
            traced = here.run(here.app.tasks[name], request={"parrot": header, "retries": 0})
            assert state_of(traced) in (None, "IGNORED"), traced
        # One that names this scheduler is a fire of ours, however broken; any other is Celery's own business.
        if scheduler_of(header, "id") == NAME.name:
            assert "bad" not in here.ran
        here.ran.clear()

    for header in each(HEADER):
        check(header)
    tried(st.one_of(changed(HEADER), VALUES), check, full=full)


def test_in_the_main_process(here: Any, full: bool) -> None:
    """What Celery tells of messages that never get so far."""

    class Sender:
        app, hostname = here.app, "w"

    class Message:
        headers: Any = None

    class Request:
        pass

    def check(headers: dict[str, Any]) -> None:
        message, request = Message(), Request()
        message.headers = headers
        vars(request).update(headers)
        _on_unknown(Sender(), message, "nobody")
        _on_rejected(Sender(), message, ValueError("x"))
        _on_revoked(here.app.tasks["good"], request, terminated=False, expired=True)

    whole = {"parrot": HEADER, "id": "id", "retries": 0, "eta": None, "hostname": "w"}
    for headers in (*each(whole), *({**whole, "parrot": header} for header in each(HEADER))):
        check(headers)
    inner = st.builds(lambda outer, header: {**outer, "parrot": header}, changed(whole), changed(HEADER))
    tried(st.one_of(changed(whole), inner), check, full=full)
