"""A schedule: when, what and policy. Definitions only; what happened to it is :class:`~.state.RunState`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

TASK_KIND = "task"
"""The built-in kind: ``target`` is a Celery task name."""

TELLS_ALL = ("failure", "missed", "success")
"""Everything that somebody may want to be told of: of a fire whose definition is not known where that is decided."""


class Missed(StrEnum):
    """What to do with a backlog whose oldest due time is more than ``parrot_on_time`` late."""

    COALESCE = "coalesce"  # the latest only
    CATCH_UP = "catch_up"  # each, in order, the newest catch_up_limit kept
    SKIP = "skip"  # none


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a schedule behaves around its due times.

    :ivar misfire_grace: seconds after which a due time is too late; None: never.
    :ivar jitter: seconds; a due time is sent up to this much later, the same on every beat.
    :ivar start_at: first possible due time, inclusive, UTC. ``end_at`` the last.
    :ivar max_fires: how many automatic fires at most; exhausted means completed.
    :ivar overlap: ``allow | skip | buffer_one | buffer_all``; None: as its kind says, else ``allow``.
    :ivar exclusion_group: its fires take turns with all others of this group, those of its kind's group besides.
    :ivar recover: a fire whose worker was lost, or that fell silent, is sent once more.
    :ivar dst_gap: ``next_valid | skip``; ``dst_fold``: ``first | last | both``; None: as the config says, or the
        default.
    """

    missed: Missed = Missed.COALESCE
    misfire_grace: float | None = 300.0
    catch_up_limit: int = 100
    jitter: float = 0.0
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_fires: int | None = None
    overlap: str | None = None
    exclusion_group: str | None = None
    recover: bool = False
    dst_gap: str | None = None
    dst_fold: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One definition, with the field names that every door uses.

    :ivar schedule_id: stable id; of a code schedule, its name.
    :ivar store: ``code``, ``db`` or ``redis``.
    :ivar target: what to run: a task name for kind ``task``, else the first argument of the kind's task.
    :ivar kwargs: keyword arguments of the call (column ``metadata``).
    :ivar options: ``apply_async`` options, e.g. ``queue``, ``priority``, ``expires``, ``headers``.
    :ivar timezone: IANA name, where ``schedule_config`` has no ``tz``.
    :ivar callbacks: who is told of a success, in order, one object each; ``failure_callbacks`` of a failure,
        ``missed_callbacks`` of due times that were missed.
    :ivar send_result: the mail with the result that follows a success; empty: none.
    :ivar version: grows with each change of the definition.
    """

    schedule_id: str
    name: str
    target: str
    schedule_type: str
    schedule_config: Mapping[str, Any]
    store: str = "code"
    kind: str = TASK_KIND
    method_name: str | None = None
    prompt: str | None = None
    target_id: str | None = None
    tenant: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    timezone: str = "UTC"
    enabled: bool = True
    policy: Policy = field(default_factory=Policy)
    callbacks: tuple[Mapping[str, Any], ...] = ()
    failure_callbacks: tuple[Mapping[str, Any], ...] = ()
    missed_callbacks: tuple[Mapping[str, Any], ...] = ()
    send_result: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    created_at: datetime | None = None

    @property
    def tells(self) -> frozenset[str]:
        """What somebody wants to be told of: ``success``, ``failure``, ``missed``."""
        wanted = {
            "success": self.callbacks or self.send_result,
            "failure": self.failure_callbacks,
            "missed": self.missed_callbacks,
        }
        return frozenset(about for about, to in wanted.items() if to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One routed kind, from ``parrot_kinds``. The built-in kind ``task`` has no ``task`` of its own.

    :ivar task: name of the Celery task that runs fires of this kind; None for ``task``.
    :ivar queue: where its fires go unless the schedule's options say otherwise.
    :ivar max_in_flight: how many of its fires may be in flight; one more is skipped, as a success. None: any number.
    :ivar exclusion_group: its fires take turns with all others of this group.
    :ivar reap_after: seconds of silence after which a run is ended; None: as the settings say.
    :ivar progress: its task reports progress, and so may run for longer than that.
    :ivar overlap: of schedules that say nothing.
    :ivar declared: listed in ``parrot_kinds``, as against the built-in.
    """

    name: str
    task: str | None = None
    queue: str | None = None
    priority: int | None = None
    time_limit: float | None = None
    soft_time_limit: float | None = None
    max_in_flight: int | None = None
    exclusion_group: str | None = None
    reap_after: float | None = None
    progress: bool = False
    overlap: str | None = None
    misfire_grace: float | None = None
    declared: bool = True


def as_uuid(schedule_id: str) -> str | None:
    """An id in its usual form (36 characters), or None if it is no UUID. 32 hex digits are one, too."""
    try:
        return str(uuid.UUID(schedule_id))
    except (ValueError, AttributeError, TypeError):
        return None
