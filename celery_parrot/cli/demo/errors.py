"""What can end the demo early."""

from __future__ import annotations

from celery_parrot.errors import ParrotError


class DemoError(ParrotError):
    """The demo cannot go on. Its text is for the person who started it and says what to do."""
