"""One code schedule as the store keeps it, and the fingerprint of its *when*."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_parrot.model.schedule import Schedule
from celery_parrot.triggers.base import Trigger

Anchored = Callable[[datetime], Trigger]
"""Builds a trigger whose chain of due times starts at the instant given."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A schedule with its trigger, or with the reason why it has none.

    :ivar trigger: None if broken.
    :ivar anchored: for a trigger that counts from its first due time: builds it anew from the shared mark, which all
        beats know, so that they agree.
    :ivar when: fingerprint of everything that decides due times; see :func:`fingerprint`.
    :ivar initial: the mark of a schedule that has none; None: the coordinator's now.
    :ivar broken: why it cannot run; empty if it can.
    """

    schedule: Schedule
    trigger: Trigger | None = None
    anchored: Anchored | None = None
    when: str = ""
    initial: datetime | None = None
    broken: str = ""

    @property
    def schedule_id(self) -> str:
        return self.schedule.schedule_id


def fingerprint(
    schedule_type: str,
    config: Mapping[str, Any],
    *,
    timezone: str,
    start_at: datetime | None = None,
    end_at: datetime | None = None,
    enabled: bool = True,
) -> str:
    """A stable hash of everything that decides due times, equal in every process that has the same code.

    Jitter is not in it (identity stays with the due time), nor is anything else that an edit may change without
    moving the mark. Memory addresses in the text of foreign objects are left out.
    """
    parts = [schedule_type, config, timezone, _iso(start_at), _iso(end_at), enabled]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(_ADDRESS.sub("", text).encode()).hexdigest()[:32]


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
