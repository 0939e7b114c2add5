"""The suite of :class:`~celery_parrot.protocols.Coordinator`."""

from __future__ import annotations

from celery_parrot.testing.conformance.commits import Commits
from celery_parrot.testing.conformance.finishes import Finishes
from celery_parrot.testing.conformance.forgetting import Forgetting
from celery_parrot.testing.conformance.outbox import Outbox
from celery_parrot.testing.conformance.reading import ReadingBack
from celery_parrot.testing.conformance.starts import Starts


class CoordinatorConformance(Commits, Outbox, Starts, Finishes, Forgetting, ReadingBack):
    """Everything that the docstrings of :class:`~celery_parrot.protocols.Coordinator` say."""
