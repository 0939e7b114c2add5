"""Places: an app each, closed after the test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.worker.place import Place


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: list[Place] = []

    def make(**options: Any) -> Place:
        made.append(Place(monkeypatch, **options))
        return made[-1]

    yield make
    for one in made:
        one.down = True
        one.installed.sessions.stop(0.0)
        one.app.close()
