"""Schedules of other schedulers, read as they are and created here. Nothing in a source is changed or deleted.

A source is read into :class:`~celery_parrot.importers.items.Item` objects. :mod:`~celery_parrot.importers.transfer`
decides what becomes of each and, when told to, creates them through the client, by whose rules they are judged as any
other schedule is.
"""
