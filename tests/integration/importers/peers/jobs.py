"""Functions that the jobs of a job store call."""

from __future__ import annotations


def note(*_args: object, **_kwargs: object) -> None:
    """Nothing."""


def other() -> None:
    """Nothing either."""


class Thing:
    """An argument that is no JSON."""
