"""Definitions, run state and history in SQL. Extras ``postgresql`` and ``mysql``; SQLite needs ``db`` only."""

from celery_parrot.stores.sql.engine import make_engine, masked
from celery_parrot.stores.sql.migrate import check, current, head, upgrade, version_location
from celery_parrot.stores.sql.store import SqlStore
from celery_parrot.stores.sql.tables import Tables, tables
from celery_parrot.stores.sql.wake import SqlWake

__all__ = [
    "SqlStore",
    "SqlWake",
    "Tables",
    "check",
    "current",
    "head",
    "make_engine",
    "masked",
    "tables",
    "upgrade",
    "version_location",
]
