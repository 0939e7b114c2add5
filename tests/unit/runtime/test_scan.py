"""``parrot.scan``: decorated methods, bound to an object."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from celery import Celery

from celery_parrot import Parrot, ParrotError


def make() -> tuple[Celery, Parrot]:
    app = Celery("test", set_as_current=False, broker="memory://")
    app.conf.update(result_expires=None)
    return app, Parrot(app)


def by_name(parrot: Parrot) -> dict[str, Any]:
    return {schedule.name: schedule for schedule in parrot.beat().code.schedules}


def reports(parrot: Parrot) -> Any:
    class Reports:
        def __init__(self, region: str) -> None:
            self.region = region

        @parrot.schedule("daily", hour=6, name="morning")
        @parrot.schedule(30.0)
        def send(self, to: str = "all") -> str:
            return f"{self.region} to {to}"

        @parrot.schedule(60.0)
        @staticmethod
        def sweep() -> str:
            return "swept"

        @staticmethod
        @parrot.schedule(61.0)
        def tidy() -> str:
            return "tidied"

        def not_scheduled(self) -> None: ...

    return Reports


BASE = f"{__name__}.reports.<locals>.Reports"


def test_methods_become_tasks_of_their_object() -> None:
    app, parrot = make()
    cls = reports(parrot)
    assert parrot.scan(cls("north")) == (f"{BASE}.send", f"{BASE}.sweep", f"{BASE}.tidy")
    found = by_name(parrot)
    assert set(found) == {"morning", f"{BASE}.send", f"{BASE}.sweep", f"{BASE}.tidy"}
    assert found["morning"].target == f"{BASE}.send"
    assert app.tasks[f"{BASE}.send"]("me") == "north to me"
    assert app.tasks[f"{BASE}.sweep"]() == "swept"
    assert app.tasks[f"{BASE}.tidy"]() == "tidied"


def test_two_objects_of_a_class_need_a_prefix() -> None:
    app, parrot = make()
    cls = reports(parrot)
    parrot.scan(cls("north"), prefix="north")
    parrot.scan(cls("south"), prefix="south")
    assert {"north.morning", "south.morning", "north.send", "south.send"} <= set(by_name(parrot))
    assert app.tasks["south.send"]() == "south to all"
    with pytest.raises(ParrotError, match="prefix of its own"):
        parrot.scan(cls("west"), prefix="north")


def test_the_same_object_twice_changes_nothing() -> None:
    _, parrot = make()
    one = reports(parrot)("north")
    assert parrot.scan(one)
    assert parrot.scan(one) == ()
    assert len(by_name(parrot)) == 4


def test_inherited_methods_count() -> None:
    app, parrot = make()
    cls = reports(parrot)
    sub = type("Sub", (cls,), {"__module__": "m"})
    parrot.scan(sub("east"))
    assert app.tasks["m.Sub.send"]() == "east to all"


def test_a_class_gives_its_class_and_static_methods_only() -> None:
    app, parrot = make()

    class Tools:
        size = 3

        @classmethod
        @parrot.schedule(10.0, name="count")
        def count(cls) -> int:
            return cls.size

    parrot.scan(Tools, prefix="tools")
    assert app.tasks["tools.count"]() == 3
    with pytest.raises(ParrotError, match=r"send needs an object: parrot\.scan\("):
        parrot.scan(reports(parrot))


def test_an_object_without_decorated_methods_is_refused() -> None:
    _, parrot = make()
    with pytest.raises(ParrotError, match="has no method with"):
        parrot.scan(object())


def test_a_method_that_no_object_was_scanned_for_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """And makes no task that would be called without its object."""
    app, parrot = make()
    reports(parrot)
    with caplog.at_level(logging.WARNING, "celery_parrot"):
        assert by_name(parrot) == {}
    assert "Reports.send has @parrot.schedule and is a method" in caplog.text
    assert not any("Reports" in name for name in app.tasks)


def test_scanning_after_the_app_is_finalised_works() -> None:
    app, parrot = make()
    app.finalize()
    parrot.scan(reports(parrot)("late"), prefix="late")
    assert app.tasks["late.send"]() == "late to all"
