"""The fixtures of every suite. Only ``backend`` has to be overridden."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_parrot.protocols import Coordinator
from celery_parrot.testing.conformance.scene import Backend, Scene


class Conformance:
    """Base of the suites."""

    @pytest.fixture
    def backend(self) -> Backend:
        """The implementation under test, empty. Override."""
        raise NotImplementedError("override the fixture backend")

    @pytest.fixture
    def coordinator(self, backend: Backend) -> Iterator[Coordinator]:
        """A client."""
        client = backend.client()
        yield client
        client.close()

    @pytest.fixture
    def other(self, backend: Backend) -> Iterator[Coordinator]:
        """A second process of the same registered name."""
        client = backend.client()
        yield client
        client.close()

    @pytest.fixture
    def foreign(self, backend: Backend) -> Iterator[Coordinator]:
        """A process of another registered name on the same server."""
        client = backend.client("foreign")
        yield client
        client.close()

    @pytest.fixture
    def scene(self, coordinator: Coordinator, backend: Backend) -> Scene:
        return Scene(coordinator, backend)
