"""Verbs for people: the only place with rules. Python callers, the command line and HTTP all come through here."""

from celery_parrot.client.code import CodeDefinitions, CodeSchedules
from celery_parrot.client.rules import Rules
from celery_parrot.client.schedules import Schedules
from celery_parrot.client.view import SchedulePage, ScheduleView

__all__ = ["CodeDefinitions", "CodeSchedules", "Rules", "SchedulePage", "ScheduleView", "Schedules"]
