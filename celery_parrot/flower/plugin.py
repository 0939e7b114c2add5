"""Its import puts the pages and the API into Flower. In ``flowerconfig.py``::

import celery_parrot.flower.plugin  # noqa: F401
"""

from __future__ import annotations

from celery_parrot.flower import bridge
from celery_parrot.flower.api import routes as api
from celery_parrot.flower.pages import routes as pages


def install() -> None:
    """Put them in, before Flower makes its application. May be repeated."""
    bridge.put_in_front([*api.ROUTES, *pages.ROUTES])
    bridge.serve_templates()
    bridge.listen()


install()
