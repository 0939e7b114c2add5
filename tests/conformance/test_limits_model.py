"""Limits of every coordinator, played against the model."""

from __future__ import annotations

from tests.conformance.limits_model import run_model
from tests.conformance.test_memory_coordinator import MemoryBackend


def test_memory(full: bool) -> None:
    """In this process."""
    run_model(MemoryBackend, examples=2000 if full else 60)
