"""Verbs for people: the only place with rules. Python callers, the command line and HTTP all come through here."""

from celery_parrot.client.applying import READ_ONLY, Action, Step, document_of
from celery_parrot.client.backfill import Backfill
from celery_parrot.client.code import CodeDefinitions, CodeSchedules
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.demands import Asked
from celery_parrot.client.groups import Group, InLine
from celery_parrot.client.health import BeatView, Health
from celery_parrot.client.masking import has_mask, without_secrets
from celery_parrot.client.rules import Rules
from celery_parrot.client.schedules import Schedules
from celery_parrot.client.schema import schedule_schema, value_of
from celery_parrot.client.shown import fire_fields, occurrence_fields, schedule_fields, step_fields
from celery_parrot.client.view import SchedulePage, ScheduleView
from celery_parrot.client.why_story import Story

__all__ = [
    "READ_ONLY",
    "Action",
    "Asked",
    "Backfill",
    "BeatView",
    "CodeDefinitions",
    "CodeSchedules",
    "Coordination",
    "Group",
    "Health",
    "InLine",
    "Rules",
    "SchedulePage",
    "ScheduleView",
    "Schedules",
    "Step",
    "Story",
    "document_of",
    "fire_fields",
    "has_mask",
    "occurrence_fields",
    "schedule_fields",
    "schedule_schema",
    "step_fields",
    "value_of",
    "without_secrets",
]
