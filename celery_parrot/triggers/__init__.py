"""WHEN: pure time maths. No I/O, no clock, no randomness: equal fields, equal answers, in any process and for ever."""

from __future__ import annotations

from .base import Trigger
from .registry import SCHEDULE_TYPES, build

__all__ = ["SCHEDULE_TYPES", "Trigger", "build"]
