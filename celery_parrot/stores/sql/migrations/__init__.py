"""Alembic's environment for our tables. See :mod:`celery_parrot.stores.sql.migrate`."""
