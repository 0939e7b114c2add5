"""WHEN: pure time maths. No I/O, no clock, no randomness: equal fields, equal answers, in any process and for ever."""

from __future__ import annotations

from .base import Trigger
from .bounded import Bounded
from .preview import Occurrence, preview
from .registry import SCHEDULE_TYPES, build
from .spread import actual_at, jitter_of

__all__ = ["SCHEDULE_TYPES", "Bounded", "Occurrence", "Trigger", "actual_at", "build", "jitter_of", "preview"]
