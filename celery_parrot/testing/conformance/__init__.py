"""Suites that every implementation of a protocol has to pass: subclass one in your tests and override ``backend``.

    class TestMine(CoordinatorConformance):
        @pytest.fixture
        def backend(self) -> Backend:
            return MyBackend()

No test sleeps: a backend moves its own time.
"""

import pytest

for _module in (
    *("commits", "outbox", "starts", "finishes", "reaping", "recovering", "forgetting", "reading", "scene"),
    *("limits", "limiting", "waiting", "inspecting", "reserving", "two_step_limits", "demanding"),
    *("telling", "delivering", "disabling", "two_step_telling", "row_telling"),
):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")

from celery_parrot.testing.conformance.coordinator import CoordinatorConformance  # noqa: E402
from celery_parrot.testing.conformance.limits import LimitsConformance  # noqa: E402
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene  # noqa: E402

__all__ = ["TIMING", "Backend", "CoordinatorConformance", "LimitsConformance", "Scene"]
