"""DECIDE: pure functions of definition, mark and now. No I/O, no clock."""

from celery_parrot.planning.backlog import PAUSED, SUPERSEDED, plan
from celery_parrot.planning.failing import HELD_BY_FAILURES, disabled_note, disables
from celery_parrot.planning.splitting import around
from celery_parrot.planning.timing import (
    EARLIEST,
    following,
    just_before,
    next_sending,
    one_shot,
    sending_at,
    trigger_of,
)

__all__ = [
    "EARLIEST",
    "HELD_BY_FAILURES",
    "PAUSED",
    "SUPERSEDED",
    "around",
    "disabled_note",
    "disables",
    "following",
    "just_before",
    "next_sending",
    "one_shot",
    "plan",
    "sending_at",
    "trigger_of",
]
