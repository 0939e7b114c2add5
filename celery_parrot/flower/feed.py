"""The fires that were heard of lately, each folded into one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FeedPage:
    """:ivar items: records, newest first. :ivar after: where the next page begins; empty: this was the last."""

    items: tuple[Mapping[str, Any], ...]
    after: str = ""


class Feed:
    """Thread-safe: filled by Flower's receiver, read by requests."""

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take note of a Celery event; what is not about a fire is left aside."""

    def page(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        text: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> FeedPage:
        """Fires that match all of what is given. ``text``: part of a schedule's name, an id or a worker's name."""
        return FeedPage(())
