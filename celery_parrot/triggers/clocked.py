"""What every trigger that reads a wall clock shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, ClassVar

from .wall import FOLDS, GAPS, WallClock

DEFAULTS: Mapping[str, Any] = {"dst_gap": GAPS[0], "dst_fold": FOLDS[0]}


class ClockTrigger:
    """Base of the frozen triggers whose due times are readings of a clock in a zone.

    A subclass is a frozen dataclass of what ``to_config`` gives; its ``__post_init__`` calls :meth:`_set`.
    """

    __slots__ = ("_clock",)

    schedule_type: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]] = DEFAULTS
    _clock: WallClock

    def _set(self, clock: WallClock) -> None:
        object.__setattr__(self, "_clock", clock)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    @property
    def clock(self) -> WallClock:
        """The readings with their zone and clock-change policy."""
        return self._clock

    @property
    def deterministic(self) -> bool:
        """True."""
        return True

    def next_after(self, t: datetime) -> datetime | None:
        """The smallest due time strictly after ``t``, in UTC; None if nothing comes within 50 years."""
        return self._clock.next_after(t)

    def latest_at(self, t: datetime) -> datetime | None:
        """The greatest due time at or before ``t``, in UTC; None if there is none within 50 years."""
        return self._clock.latest_at(t)

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """The type with every field that differs from its default; lists where the field is a tuple."""
        config: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name not in self.defaults or value != self.defaults[field.name]:
                config[field.name] = list(value) if isinstance(value, tuple) else value
        return self.schedule_type, config
