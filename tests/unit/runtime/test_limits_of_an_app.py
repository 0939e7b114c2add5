"""Limits and thresholds from an app's settings to its beat."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery

from celery_parrot import ConfigurationError, Parrot
from celery_parrot.runtime import wiring
from celery_parrot.runtime.entries import Source
from celery_parrot.runtime.known_tasks import options_of

NOWHERE = "redis://127.0.0.1:1/0"


def _app(**conf: Any) -> Celery:
    app = Celery("limits", set_as_current=False, broker="memory://")
    app.conf.update(parrot_redis_url=NOWHERE, **conf)
    return app


def _bounds(app: Celery) -> Any:
    parrot = Parrot(app)
    beat = parrot.beat()
    try:
        return beat.ticker._router.bounds
    finally:
        beat.close(0.1)


def test_the_settings_reach_the_beat() -> None:
    bounds = _bounds(
        _app(
            parrot_exclusion_groups={"gpu": 2}, parrot_max_concurrent=7, parrot_reap_after=60, parrot_reap_margin=1,
            timezone="Europe/Madrid",
        )
    )  # fmt: skip
    assert (bounds.groups, bounds.max_concurrent, bounds.reap_after, bounds.reap_margin) == ({"gpu": 2}, 7, 60, 1)
    assert bounds.timezone == ZoneInfo("Europe/Madrid")


def test_only_an_app_with_a_facade_has_workers_that_watch() -> None:
    """Without one nothing about a task may change; with coordination none its workers watch nothing either."""
    assert _bounds(_app()).guarded is True
    assert _bounds(_app(parrot_coordination="none")).guarded is False
    beat = wiring.beat(_app())
    assert beat.ticker._router.bounds.guarded is False
    beat.close(0.1)


def test_what_a_task_says_of_itself_is_known_where_the_task_is() -> None:
    app = _app(task_soft_time_limit=20)

    @app.task(name="t.known", time_limit=30, expires=60)
    def known() -> None: ...

    app.finalize()
    of_task = options_of(app)
    assert of_task("t.known") == {"expires": 60, "time_limit": 30, "soft_time_limit": 20}
    assert of_task("t.elsewhere") == {}


def test_a_schedule_added_later_may_not_have_a_limit_that_nobody_keeps() -> None:
    beat = Parrot(_app(parrot_coordination="none")).beat()
    with pytest.raises(ConfigurationError, match="parrot_coordination is 'none'"):
        beat.put(Source("late", {"task": "t", "schedule": 5.0, "overlap": "skip"}))
    beat.close(0.1)
