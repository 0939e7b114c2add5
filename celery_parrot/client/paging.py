"""One page out of the pages of several stores."""

from __future__ import annotations

from collections.abc import Mapping

from celery_parrot.client.view import SchedulePage, view_of
from celery_parrot.protocols import Page


def page_of(pages: Mapping[str, Page], limit: int) -> SchedulePage:
    """The first ``limit`` of all by name. A name that two stores have is never cut in two: the cursor is a name."""
    views = [view_of(stored, store) for store, page in pages.items() for stored in page.items]
    if len(pages) > 1:
        views.sort(key=lambda view: view.name)
    shown = views[:limit]
    while shown and len(shown) < len(views) and views[len(shown)].name == shown[-1].name:
        shown.append(views[len(shown)])
    more = len(shown) < len(views) or any(page.after for page in pages.values())
    return SchedulePage(shown, shown[-1].name if shown and more else "")
