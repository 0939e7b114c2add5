"""SHOW: what happened, for people and machines."""

from celery_parrot.instrumentation.fan import Fan, flush
from celery_parrot.instrumentation.logging import LogEvents
from celery_parrot.instrumentation.metrics import Metrics

__all__ = ["Fan", "LogEvents", "Metrics", "flush"]
