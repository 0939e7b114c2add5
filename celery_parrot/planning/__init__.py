"""DECIDE: pure functions of definition, mark and now. No I/O, no clock."""

from celery_parrot.planning.backlog import plan
from celery_parrot.planning.timing import next_sending, sending_at, trigger_of

__all__ = ["next_sending", "plan", "sending_at", "trigger_of"]
