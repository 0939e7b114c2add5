"""SHOW: what happened, for people and machines."""

from celery_parrot.instrumentation.logging import LogEvents

__all__ = ["LogEvents"]
