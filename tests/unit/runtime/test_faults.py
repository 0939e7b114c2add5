"""Faults on demand: nothing unless asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from celery_parrot.model.plan import PlannedFire, Verdict
from celery_parrot.protocols import CommitReply, Coordinator, Message
from celery_parrot.runtime import faults
from celery_parrot.testing import RecordingSender


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(faults, "_die", lambda: found.append("died"))
    return found


class OneReply:
    def __init__(self, reply: CommitReply) -> None:
        self.reply = reply

    def commit(self, plans: object, owner: str) -> Any:
        return None, [self.reply]

    def sweep(self) -> str:
        return "swept"


def test_nothing_without_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(faults.CRASH, raising=False)
    monkeypatch.delenv(faults.OFFSET, raising=False)
    sender, coordinator = RecordingSender(), cast(Coordinator, object())
    assert faults.sender(sender) is sender
    assert faults.coordinator(coordinator) is coordinator
    assert abs(faults.clock().now() - faults.clock().now()) < timedelta(seconds=5)


def test_the_clock_is_as_wrong_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    right = faults.clock().now()
    monkeypatch.setenv(faults.OFFSET, "-30")
    assert timedelta(seconds=25) < right - faults.clock().now() < timedelta(seconds=31)


def test_a_crash_after_the_first_commit_of_a_fire(monkeypatch: pytest.MonkeyPatch, deaths: list[str]) -> None:
    monkeypatch.setenv(faults.CRASH, faults.AFTER_COMMIT)
    real = OneReply(CommitReply(schedule_id="a", verdict=Verdict.MOVED))
    wrapped: Any = faults.coordinator(cast(Coordinator, real))
    wrapped.commit([], "me")
    assert deaths == []
    fire = PlannedFire(datetime(2026, 1, 1, tzinfo=UTC))
    real.reply = CommitReply(schedule_id="a", verdict=Verdict.COMMITTED, fires=(fire,))
    wrapped.commit([], "me")
    assert deaths == ["died"]
    assert wrapped.sweep() == "swept"
    assert faults.sender(RecordingSender()).__class__ is RecordingSender


def test_a_crash_after_the_first_message(monkeypatch: pytest.MonkeyPatch, deaths: list[str]) -> None:
    monkeypatch.setenv(faults.CRASH, faults.AFTER_SEND)
    real = RecordingSender()
    wrapped = faults.sender(real)
    real.down = "away"
    wrapped.send([Message(task="t", task_id="1")], 1.0)
    assert deaths == []
    real.down = ""
    wrapped.send([Message(task="t", task_id="1")], 1.0)
    assert deaths == ["died"]
    wrapped.close()
    assert real.closed
