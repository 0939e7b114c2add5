"""Coordination in a database. Extras ``postgresql`` and ``mysql``; SQLite needs ``db`` only."""

from celery_parrot.coordination.sql.coordinator import SqlCoordinator
from celery_parrot.coordination.sql.tables import Tables, tables

__all__ = ["SqlCoordinator", "Tables", "tables"]
