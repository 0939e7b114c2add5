"""The facade and its decorator: one line, nothing surprising, any number of apps."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import Any

import pytest
from celery import Celery, signals
from celery.worker import WorkController

import celery_parrot
from celery_parrot import ConfigurationError, Parrot, ParrotError, ParrotScheduler
from celery_parrot.runtime.parrot import parrot_of
from celery_parrot.testing import FakeClock


def make_app(**settings: Any) -> Celery:
    app = Celery("test", set_as_current=False, broker="memory://")
    app.conf.update(settings)
    return app


# --- making one ---


def test_making_one_reads_no_settings() -> None:
    """Hooks that are connected after this line still run, and settings that follow still count."""
    app = make_app()
    parrot = Parrot(app)
    assert getattr(app, "configured") is False  # noqa: B009 - the stubs do not know it
    app.conf.parrot_name = "later"
    seen: list[str] = []
    app.on_after_configure.connect(lambda **_: seen.append("configured"), weak=False)
    assert parrot.settings.name == "later"
    assert seen == ["configured"]


def test_beats_use_the_parrot_scheduler_unless_another_is_named() -> None:
    app = make_app()
    Parrot(app)
    assert app.conf.beat_scheduler == "parrot"
    other = make_app(beat_scheduler="redbeat.RedBeatScheduler")
    Parrot(other)
    assert other.conf.beat_scheduler == "redbeat.RedBeatScheduler"
    alone = make_app()
    assert alone.conf.beat_scheduler == "celery.beat:PersistentScheduler"


def test_two_for_one_app_are_refused() -> None:
    app = make_app()
    first = Parrot(app)
    with pytest.raises(ParrotError, match="already"):
        Parrot(app)
    assert parrot_of(app) is first


def test_several_apps_do_not_collide() -> None:
    one, two = make_app(parrot_name="one"), make_app(parrot_name="two")
    parrots = Parrot(one), Parrot(two)

    @parrots[0].schedule(5, name="only one's")
    def plain() -> None: ...

    one.finalize()
    two.finalize()
    assert (parrots[0].settings.name, parrots[1].settings.name) == ("one", "two")
    assert "only one's" in [schedule.name for schedule in parrots[0].beat().code.schedules]
    assert not any(name.endswith("plain") for name in two.tasks)
    assert "only one's" not in [schedule.name for schedule in parrots[1].beat().code.schedules]


def test_a_bad_setting_is_raised_where_it_is_known_already() -> None:
    app = make_app(parrot_lease_ttl=0)
    app.conf.get("timezone")  # configures
    with pytest.raises(ConfigurationError, match="parrot_lease_ttl = 0"):
        Parrot(app)


def test_a_bad_setting_found_later_is_raised_by_whoever_needs_the_settings() -> None:
    app = make_app(parrot_lease_ttl=0)
    parrot = Parrot(app)
    app.finalize()
    with pytest.raises(ConfigurationError, match="parrot_lease_ttl = 0"):
        _ = parrot.settings
    with pytest.raises(ConfigurationError):
        parrot.tick()


def test_a_worker_with_a_bad_setting_does_not_start(caplog: pytest.LogCaptureFixture) -> None:
    """One CRITICAL sentence and exit code 1, no traceback."""
    app = make_app(parrot_lease_ttl=0)
    Parrot(app)
    with pytest.raises(SystemExit) as stopped:
        signals.worker_init.send(sender=WorkController(app=app, pool="solo"))
    assert stopped.value.code == 1
    (record,) = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert record.getMessage().startswith("parrot_lease_ttl = 0: must be a number above 0")
    assert record.exc_info is None


# --- the decorator ---


def names(parrot: Parrot) -> dict[str, str]:
    return {
        schedule.name: schedule.target
        for schedule in parrot.beat().code.schedules
        if schedule.target != "celery.backend_cleanup"
    }


def test_the_decorator_above_and_below_the_task() -> None:
    app = make_app()
    parrot = Parrot(app)

    @parrot.schedule("cron", expr="30 6 * * mon-fri", timezone="Europe/Madrid")
    @app.task(shared=False, name="t.above")
    def above() -> None: ...

    @app.task(shared=False, name="t.below", bind=True)
    @parrot.schedule(30.0, args=[1], options={"queue": "q"})
    def below(self: Any, number: int) -> None: ...

    assert names(parrot) == {"t.above": "t.above", "t.below": "t.below"}
    found = {schedule.name: schedule for schedule in parrot.beat().code.schedules}
    assert (found["t.above"].schedule_type, found["t.above"].timezone) == ("cron", "Europe/Madrid")
    assert found["t.above"].schedule_config["expr"] == "30 6 * * mon-fri"
    assert (found["t.below"].args, found["t.below"].options) == ((1,), {"queue": "q"})
    assert above() is None


def test_stacked_decorators_count_up_and_a_name_is_kept() -> None:
    app = make_app()
    parrot = Parrot(app)

    @parrot.schedule(30, name="by name")
    @parrot.schedule(20)
    @parrot.schedule(10)
    @app.task(shared=False, name="t.stacked")
    def stacked() -> None: ...

    assert names(parrot) == {"t.stacked": "t.stacked", "t.stacked#2": "t.stacked", "by name": "t.stacked"}
    by_name = {schedule.name: schedule.schedule_config for schedule in parrot.beat().code.schedules}
    assert by_name["t.stacked"]["seconds"] == 10
    assert by_name["t.stacked#2"]["seconds"] == 20


def test_a_plain_function_becomes_a_task_in_beats_and_workers() -> None:
    app = make_app()
    parrot = Parrot(app)

    @parrot.schedule(10)
    def plain() -> str:
        return "ran"

    assert plain() == "ran"
    app.finalize()
    (name,) = names(parrot).values()
    assert app.tasks[name]() == "ran"


def test_a_decorator_may_name_a_kind_and_its_target() -> None:
    app = make_app(parrot_kinds={"agent": {"task": "t.agent"}})
    parrot = Parrot(app)

    @parrot.schedule(10, kind="agent", target="weather", name="w", prompt="hello")
    @app.task(shared=False, name="t.agent")
    def agent(target: str, **_: object) -> None: ...

    assert names(parrot) == {"w": "weather"}


def test_a_bad_decorator_is_a_broken_schedule() -> None:
    app = make_app()
    parrot = Parrot(app)

    @parrot.schedule("cron", expr="monkey")
    @app.task(shared=False, name="t.bad")
    def bad() -> None: ...

    assert "t.bad" in parrot.beat().code.broken


# --- driving it oneself ---


def test_tick_sends_what_is_due_and_returns_the_sleep() -> None:
    """The facade alone, over the in-memory broker and a clock driven by hand."""
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    app = make_app(beat_schedule={"it": {"task": "t.it", "schedule": 10.0, "options": {"queue": "tick-test"}}})
    parrot = Parrot(app, clock=clock)
    assert 0 <= parrot.tick() <= 1
    clock.advance(10.5)
    parrot.tick()
    with app.connection_for_read() as connection:
        message = connection.SimpleQueue("tick-test").get(block=False)
        headers: Any = message.headers
        assert headers["parrot"]["due_at"] == "2026-01-01T00:00:10+00:00"
        assert headers["task"] == "t.it"
        message.ack()
    parrot.close()


def test_a_parrot_may_be_driven_again_after_close() -> None:
    app = make_app()
    parrot = Parrot(app, clock=FakeClock())
    parrot.tick()
    parrot.close()
    parrot.close()
    assert parrot.tick() >= 0
    parrot.close()
    gc.collect()


# --- the package ---


def test_public_names_are_there_and_no_others() -> None:
    for name in celery_parrot.__all__:
        assert getattr(celery_parrot, name) is not None
        assert name in dir(celery_parrot)
    assert celery_parrot.ParrotScheduler is ParrotScheduler
    with pytest.raises(AttributeError, match="no attribute 'Parot'"):
        _ = celery_parrot.Parot
