"""Schedules that live in the code of this process."""

from celery_parrot.stores.memory.code import CodeStore
from celery_parrot.stores.memory.definition import Definition, fingerprint

__all__ = ["CodeStore", "Definition", "fingerprint"]
