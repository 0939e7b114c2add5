"""Code schedules: every form Celery takes, our own keys besides, and one bad entry that never stops the others."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.schedules import crontab, schedule, solar

from celery_parrot import ConfigurationError
from celery_parrot.model.schedule import Missed
from celery_parrot.runtime import stopping
from celery_parrot.runtime.config import load
from celery_parrot.runtime.entries import CLEANUP, Collected, Source, collect, evaluate, sources
from celery_parrot.stores.memory import Definition

STARTED = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_app(**settings: Any) -> Celery:
    app = Celery("test", set_as_current=False)
    app.conf.update({"result_expires": None, **settings})  # so that Celery adds no entry of its own
    return app


def collected(entries: Mapping[Any, Any], **settings: Any) -> Collected:
    app = make_app(beat_schedule=dict(entries), **settings)
    return collect(app, sources(app), load(app, {}), started=STARTED)


def one(entry: object, **settings: Any) -> Definition:
    (definition,) = collected({"it": entry}, **settings).definitions
    return definition


def due(definition: Definition) -> datetime:
    assert definition.trigger is not None, definition.broken
    found = definition.trigger.next_after(STARTED)
    assert found is not None
    return found


# --- Celery's own forms ---


@pytest.mark.parametrize(
    ("when", "schedule_type", "expected"),
    [
        (30.0, "interval", STARTED + timedelta(seconds=30)),
        (30, "interval", STARTED + timedelta(seconds=30)),
        (timedelta(minutes=5), "interval", STARTED + timedelta(minutes=5)),
        (schedule(10), "interval", STARTED + timedelta(seconds=10)),
        (schedule(10, relative=True), "interval", STARTED + timedelta(seconds=10)),
        (crontab(hour=7, minute=30, day_of_week=1), "cron", datetime(2026, 1, 5, 7, 30, tzinfo=UTC)),
        (crontab(), "cron", STARTED + timedelta(minutes=1)),
    ],
)
def test_every_form_of_a_schedule_is_converted(when: object, schedule_type: str, expected: datetime) -> None:
    definition = one({"task": "t", "schedule": when})
    assert definition.schedule.schedule_type == schedule_type
    assert due(definition) == expected


def test_a_solar_schedule_is_converted() -> None:
    pytest.importorskip("ephem")
    definition = one({"task": "t", "schedule": solar("sunset", -37.81753, 144.96715)})
    assert definition.schedule.schedule_type == "solar"
    assert STARTED < due(definition) < STARTED + timedelta(days=2)


def test_what_celery_calls_with_is_kept() -> None:
    entry = {
        "task": "tasks.add", "schedule": 30.0, "args": [16, 16], "kwargs": {"x": 1},
        "options": {"queue": "q", "priority": 5, "expires": 60}, "relative": True,
    }  # fmt: skip
    found = one(entry).schedule
    assert (found.schedule_id, found.name, found.target, found.kind, found.store) == (
        "it",
        "it",
        "tasks.add",
        "task",
        "code",
    )
    assert (found.args, found.kwargs) == ((16, 16), {"x": 1})
    assert found.options == {"queue": "q", "priority": 5, "expires": 60}


def test_an_entry_object_is_read_like_a_dictionary() -> None:
    app = make_app()
    entry = ScheduleEntry(
        name="other", task="t", schedule=schedule(5, app=app), args=(1,), options={"queue": "q"}, app=app
    )
    found = one(entry)
    assert (found.schedule.name, found.schedule.target, found.schedule.args) == ("it", "t", (1,))
    assert due(found) == STARTED + timedelta(seconds=5)


def test_a_cron_reads_the_app_time_zone_and_an_entry_may_have_its_own() -> None:
    entry = {"task": "t", "schedule": crontab(hour="7", minute="0")}
    assert due(one(entry, timezone="Europe/Madrid")) == datetime(2026, 1, 2, 6, tzinfo=UTC)
    assert due(one({**entry, "timezone": "Asia/Tokyo"}, timezone="Europe/Madrid")) == datetime(
        2026, 1, 1, 22, tzinfo=UTC
    )


def test_periodic_tasks_added_in_celerys_hooks_are_found() -> None:
    app = make_app()

    @app.task(shared=False, name="t.hello")
    def hello(word: str) -> None: ...

    @app.on_after_configure.connect
    def configured(sender: Celery, **_: object) -> None:
        sender.add_periodic_task(10.0, hello.s("hello"), name="add every 10")
        sender.add_periodic_task(30.0, hello.s("world"), expires=10)

    @app.on_after_finalize.connect
    def finalized(sender: Celery, **_: object) -> None:
        sender.add_periodic_task(crontab(hour=7, minute=30, day_of_week=1), hello.s("Monday"))

    app.finalize()
    found = collect(app, sources(app), load(app, {}), started=STARTED).definitions
    by_args = {definition.schedule.args: definition.schedule for definition in found}
    assert by_args["hello",].name == "add every 10"
    assert by_args["world",].options["expires"] == 10
    assert by_args["Monday",].schedule_type == "cron"


@pytest.mark.parametrize(
    ("backend", "expires", "wanted"),
    [("cache+memory://", 3600, False), ("file:///nowhere", 3600, True), ("file:///nowhere", None, False)],
)
def test_the_cleanup_entry_comes_under_celerys_conditions(backend: str, expires: object, wanted: bool) -> None:
    """Only for result backends that do not expire results by themselves."""
    app = make_app(result_backend=backend, result_expires=expires)
    app.__dict__["_local"].backend = type("Backend", (), {"supports_autoexpire": backend.startswith("cache")})()
    names = [source.name for source in sources(app)]
    assert (CLEANUP in names) is wanted


def test_a_name_that_is_no_text_outside_of_python_breaks_its_entry_only() -> None:
    """Half a surrogate pair can be no key and no id; sending it failed in the middle of a tick, for all."""
    bad, good = collected({"\ud800": {"task": "t", "schedule": 1}, "good": {"task": "t", "schedule": 1}}).definitions
    assert "cannot be written as UTF-8" in str(bad.broken)
    assert good.trigger is not None


def test_the_users_own_cleanup_entry_wins() -> None:
    definition = one({"task": CLEANUP, "schedule": 60.0})
    app = make_app(beat_schedule={CLEANUP: {"task": CLEANUP, "schedule": 60.0}})
    assert [source.name for source in sources(app)].count(CLEANUP) == 1
    assert definition.trigger is not None


def test_lazy_arguments_are_called_at_the_moment_of_sending() -> None:
    values = iter([1, 2])
    lazy = BeatLazyFunc(lambda: next(values))
    assert evaluate((lazy, "x"), {"y": lazy, "z": 3}) == ((1, "x"), {"y": 2, "z": 3})


def test_a_lazy_argument_that_ends_the_program_only_fails() -> None:
    """Else every beat would die of it, one after the other, and again after each restart."""
    with pytest.raises(RuntimeError, match=r"called sys\.exit\(3\)"):
        evaluate((BeatLazyFunc(sys.exit, 3),), {})


def test_a_stop_of_the_beat_gets_through_a_lazy_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery's handler raises SystemExit wherever the main thread is: here, in code of the user's that takes long."""
    waiting = threading.Event()

    def computed() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        waiting.wait(10)

    def as_celery(number: int, frame: object) -> None:
        raise SystemExit

    monkeypatch.setattr(stopping, "GRACE", 0.05)
    monkeypatch.setattr(stopping, "_let_through", False)
    before = signal.signal(signal.SIGTERM, as_celery)
    shield = stopping.Shield()
    try:
        with pytest.raises(SystemExit), shield():
            evaluate((BeatLazyFunc(computed),), {})
    finally:
        shield.remove()
        signal.signal(signal.SIGTERM, before)


# --- our own keys ---


def test_our_own_keys() -> None:
    entry = {
        "kind": "agent", "target": "weather", "schedule": 60, "prompt": "hello", "method_name": "ask",
        "target_id": "7", "tenant": "acme", "missed": "catch_up", "misfire_grace": None, "catch_up_limit": 7,
        "jitter": timedelta(seconds=3), "start_at": "2026-01-01T12:00:30+00:00",
        "end_at": datetime(2026, 2, 1, tzinfo=UTC),
        "max_fires": 9, "enabled": False, "overlap": "allow",
    }  # fmt: skip
    found = one(entry, parrot_kinds={"agent": {"task": "t.agent"}})
    made = found.schedule
    assert (made.kind, made.target, made.prompt, made.method_name, made.target_id, made.tenant) == (
        "agent", "weather", "hello", "ask", "7", "acme",
    )  # fmt: skip
    policy = made.policy
    assert (policy.missed, policy.misfire_grace, policy.catch_up_limit, policy.jitter, policy.max_fires) == (
        Missed.CATCH_UP, None, 7, 3.0, 9,
    )  # fmt: skip
    assert made.enabled is False
    assert due(found) == datetime(2026, 1, 1, 12, 1, tzinfo=UTC)


def test_bounds_without_a_zone_are_read_in_that_of_the_schedule() -> None:
    found = one({"task": "t", "schedule": 60, "timezone": "Asia/Tokyo", "start_at": "2026-01-02 09:00"})
    assert found.schedule.policy.start_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert due(found) == datetime(2026, 1, 2, tzinfo=UTC)


def test_defaults_of_a_code_schedule() -> None:
    policy = one({"task": "t", "schedule": 60}).schedule.policy
    assert (policy.missed, policy.misfire_grace, policy.catch_up_limit) == (Missed.COALESCE, 300.0, 100)


def test_a_kind_lends_its_grace() -> None:
    kinds = {"agent": {"task": "t", "misfire_grace": 20}}
    assert one({"target": "x", "kind": "agent", "schedule": 60}, parrot_kinds=kinds).schedule.policy.misfire_grace == 20


def test_a_schedule_type_instead_of_a_schedule() -> None:
    config = {"expr": "30 6 * * *"}
    found = one({"task": "t", "schedule_type": "cron", "schedule_config": config, "timezone": "Europe/Madrid"})
    assert due(found) == datetime(2026, 1, 2, 5, 30, tzinfo=UTC)


def test_clock_change_treatment_reaches_the_trigger() -> None:
    cron = crontab(hour="2", minute="30")
    normal = one({"task": "t", "schedule": cron, "timezone": "Europe/Madrid"})
    skips = one({"task": "t", "schedule": cron, "timezone": "Europe/Madrid", "dst_gap": "skip"})
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert normal.trigger is not None
    assert skips.trigger is not None
    assert normal.trigger.next_after(before) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert skips.trigger.next_after(before) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


def test_a_one_shot_starts_just_before_its_instant() -> None:
    """So that an instant which is past when the entry is first seen still fires, within its grace."""
    found = one({"task": "t", "schedule_type": "once", "schedule_config": {"run_date": "2026-01-01T11:59:00Z"}})
    assert found.initial is not None
    assert found.trigger is not None
    assert found.trigger.next_after(found.initial) == datetime(2026, 1, 1, 11, 59, tzinfo=UTC)


def test_a_one_shot_without_an_instant_warns_and_keeps_one_identity() -> None:
    entry = {"task": "t", "schedule_type": "once", "schedule_config": {}}
    app = make_app(beat_schedule={"it": entry})
    made = [collect(app, sources(app), load(app, {}), started=STARTED + timedelta(hours=hours)) for hours in (0, 1)]
    assert any("beats will differ" in sentence for sentence in made[0].warnings)
    assert made[0].definitions[0].when == made[1].definitions[0].when


# --- what decides due times, and nothing else, is the fingerprint ---


def test_the_fingerprint_is_that_of_the_due_times() -> None:
    base = {"task": "t", "schedule": 60}
    when = one(base).when
    assert when
    for same in (
        {**base, "schedule": timedelta(minutes=1)},
        {**base, "args": [1]},
        {**base, "jitter": 5},
        {**base, "task": "u"},
    ):
        assert one(same).when == when, same
    for other in ({**base, "schedule": 61}, {**base, "enabled": False}, {**base, "end_at": "2027-01-01T00:00Z"}):
        assert one(other).when != when, other


# --- schedules of somebody else's making ---


class EveryOther(schedule):
    """Only its own code knows when it is due."""

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return last_run_at + timedelta(seconds=7) - self.now()


class NoRepr(EveryOther):
    __repr__ = object.__repr__


class Moody(EveryOther):
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        raise RuntimeError("not today")


def test_a_foreign_schedule_counts_from_the_shared_mark() -> None:
    definition = one({"task": "t", "schedule": EveryOther(1)})
    assert definition.anchored is not None
    mark = STARTED + timedelta(seconds=3)
    assert definition.anchored(mark).next_after(mark) == mark + timedelta(seconds=7)


def test_a_foreign_schedule_has_one_fingerprint_in_every_process() -> None:
    """Its repr may hold a memory address; two beats must not move the mark back and forth over that."""
    first, second = NoRepr(1), NoRepr(1)
    assert repr(first) != repr(second)
    assert one({"task": "t", "schedule": first}).when == one({"task": "t", "schedule": second}).when
    assert one({"task": "t", "schedule": first}).when != one({"task": "t", "schedule": EveryOther(1)}).when


# --- bad entries ---

BAD: list[tuple[object, str]] = [
    ("text", "must be a dictionary"),
    ({"task": "t"}, "give either schedule"),
    ({"task": "t", "schedule": 5, "schedule_type": "interval"}, "give either schedule"),
    ({"task": "t", "schedule": "5 * * * *"}, "must be seconds"),
    ({"task": "t", "schedule": object()}, "must be seconds"),
    ({"task": "t", "schedule": 0}, "seconds"),
    ({"task": "t", "schedule_type": "corn", "schedule_config": {}}, "schedule_type"),
    ({"task": "t", "schedule_type": "cron", "schedule_config": []}, "dictionary"),
    ({"schedule": 5}, "name of a task"),
    ({"task": "t", "target": "u", "schedule": 5}, "given twice"),
    ({"task": "t", "scheduel": 5}, "Did you mean 'schedule'"),
    ({"task": "t", "schedule": 5, "callbacks": [{"type": "webhok"}]}, "did you mean 'webhook'"),
    ({"task": "t", "schedule": 5, "args": "abc"}, "must be a list or tuple"),
    ({"task": "t", "schedule": 5, "kwargs": [1]}, "must be a dictionary"),
    ({"task": "t", "schedule": 5, "options": "q"}, "must be a dictionary"),
    ({"task": "t", "schedule": 5, "missed": "sometimes"}, "coalesce, catch_up, skip"),
    ({"task": "t", "schedule": 5, "misfire_grace": -1}, "misfire_grace"),
    ({"task": "t", "schedule": 5, "jitter": "some"}, "jitter"),
    ({"task": "t", "schedule": 5, "max_fires": 0}, "max_fires"),
    ({"task": "t", "schedule": 5, "start_at": "tomorrow"}, "start_at"),
    ({"task": "t", "schedule": 5, "start_at": "2027-01-01T00:00Z", "end_at": "2026-01-01T00:00Z"}, "end_at"),
    ({"task": "t", "schedule": 5, "timezone": "Mars/Olympus"}, "Mars/Olympus"),
    ({"task": "t", "schedule": 5, "enabled": "yes"}, "enabled"),
    ({"task": "t", "schedule": 5, "kind": 3}, "kind"),
    ({"task": "t", "schedule": 5, "overlap": "sometimes"}, "overlap"),
    ({"task": "t", "schedule": 5, "exclusion_group": " "}, "exclusion_group"),
    ({"task": "t", "schedule": 5, "recover": "yes"}, "recover"),
]


@pytest.mark.parametrize(("entry", "reason"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_an_entry_that_cannot_be_read_is_broken_and_the_others_run(entry: object, reason: str) -> None:
    found = {d.schedule.name: d for d in collected({"bad": entry, "good": {"task": "t", "schedule": 5}}).definitions}
    assert reason in found["bad"].broken
    assert found["bad"].trigger is None
    assert found["good"].trigger is not None


def test_a_schedule_object_that_raises_is_broken_only_for_itself() -> None:
    class Bomb(schedule):
        @property
        def run_every(self) -> timedelta:
            raise RuntimeError("boom")

        @run_every.setter
        def run_every(self, value: object) -> None: ...

    found = {
        d.schedule.name: d
        for d in collected(
            {"bad": {"task": "t", "schedule": Bomb(1)}, "good": {"task": "t", "schedule": 5}}
        ).definitions
    }
    assert found["bad"].broken == "RuntimeError: boom"
    assert found["good"].trigger is not None


def test_no_reason_shows_arguments() -> None:
    for entry in ({"task": "t", "schedule": 5, "args": "s3cret"}, {"task": "t", "schedule": 5, "kwargs": ["s3cret"]}):
        assert "s3cret" not in one(entry).broken


@pytest.mark.parametrize("limit", [{"overlap": "skip"}, {"exclusion_group": "gpu"}])
def test_a_limit_on_an_entry_needs_a_coordinator(limit: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="parrot_coordination is 'none'"):
        one({"task": "t", "schedule": 5, **limit})
    policy = one({"task": "t", "schedule": 5, **limit}, broker_url="redis://h").schedule.policy
    assert {name: getattr(policy, name) for name in limit} == limit


def test_an_entry_that_says_nothing_of_overlap_leaves_it_to_its_kind() -> None:
    policy = one({"task": "t", "schedule": 5}).schedule.policy
    assert (policy.overlap, policy.exclusion_group, policy.recover) == (None, None, False)
    assert one({"task": "t", "schedule": 5, "recover": True}).schedule.policy.recover is True


# --- warnings ---


def test_a_kind_that_is_not_routed_here_is_said() -> None:
    (sentence,) = collected({"it": {"target": "x", "kind": "agent", "schedule": 5}}).warnings
    assert "'agent' is not in parrot_kinds" in sentence


def test_options_that_the_fire_decides_are_said() -> None:
    (sentence,) = collected({"it": {"task": "t", "schedule": 5, "options": {"task_id": "x", "retry": True}}}).warnings
    assert "options retry, task_id have no effect" in sentence


def test_a_name_used_twice_keeps_the_first_and_is_said() -> None:
    app = make_app()
    twice = [
        Source("it", {"task": "first", "schedule": 5}),
        Source("it", {"task": "second", "schedule": 5}, "@parrot.schedule"),
    ]
    found = collect(app, twice, load(app, {}), started=STARTED)
    assert [definition.schedule.target for definition in found.definitions] == ["first"]
    assert found.warnings == ("@parrot.schedule: the name 'it' is taken already; this one is left out",)


def test_graces_by_name() -> None:
    found = collected({"a": {"task": "t", "schedule": 5, "misfire_grace": 9}, "b": {"task": "t", "schedule": "x"}})
    assert found.graces() == {"a": 9.0}
