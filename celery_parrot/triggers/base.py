"""What every trigger answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Trigger(Protocol):
    """When a schedule is due. Pure: equal fields give equal answers in any process, on any host, for ever.

    Instants go in aware (any zone, microseconds) and come out in UTC.
    """

    @property
    def deterministic(self) -> bool:
        """False for triggers whose answers depend on more than their fields (e.g. a wrapped foreign schedule)."""
        ...

    def next_after(self, t: datetime) -> datetime | None:
        """The smallest due time strictly after ``t``, or None if nothing more will come."""
        ...

    def latest_at(self, t: datetime) -> datetime | None:
        """The greatest due time at or before ``t``, or None if there is none."""
        ...

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """``(schedule_type, config)`` in canonical, JSON-able form: ``build`` of it gives an equal trigger."""
        ...

    def describe(self) -> str:
        """One English sentence, with the zone and how clock changes are treated."""
        ...
