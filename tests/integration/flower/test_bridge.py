"""What holds when Flower is not as we expect it."""

from __future__ import annotations

from pathlib import Path

import flower.events
import flower.urls
import pytest

from celery_parrot.flower.bridge import internals, listen, put_in_front, serve_templates


def test_installing_twice_changes_nothing() -> None:
    """Each handler once, the loader and the listener as they are."""
    handlers, loader, begin = list(flower.urls.handlers), flower.urls.settings["template_loader"], flower.events.Events
    began = begin.__init__
    put_in_front(handlers[:3])
    serve_templates()
    listen()
    assert flower.urls.handlers == handlers
    assert flower.urls.settings["template_loader"] is loader
    assert begin.__init__ is began


def test_a_navbar_without_the_place_for_our_link_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Flower works, and a warning says where the schedules are; once, since templates are compiled once."""
    bar = "<nav><ul><li><a href='/somewhere'>Broker</a></li></ul></nav>"
    assert internals.with_link(bar) == bar
    assert "at /parrot" in caplog.text


def test_no_link_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no route has would break every page of Flower's."""
    bar = (Path(flower.urls.settings["template_path"]) / "navbar.html").read_text("utf-8")
    assert "parrot" in internals.with_link(bar)
    monkeypatch.setattr(flower.urls, "handlers", flower.urls.handlers[-3:])
    assert internals.with_link(bar) == bar
