"""Events as log records: readable, machine-readable, harmless."""

from __future__ import annotations

import logging

import pytest

from celery_parrot.instrumentation import LogEvents
from celery_parrot.model.events import FIRE_SENT, Event


def test_an_event_is_a_record_with_its_name_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "celery_parrot")
    LogEvents().emit(Event(FIRE_SENT, logging.INFO, "100% sent", {"schedule": "nightly", "fire_id": "x"}))
    (record,) = caplog.records
    assert record.name == "celery_parrot"
    assert record.getMessage() == "100% sent"
    assert (vars(record)["event"], vars(record)["parrot"]) == ("fire-sent", {"schedule": "nightly", "fire_id": "x"})


def test_a_handler_that_raises_stops_nothing() -> None:
    class Bad(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("disk full")

    logger, bad = logging.getLogger("celery_parrot"), Bad()
    logger.addHandler(bad)
    try:
        LogEvents().emit(Event(FIRE_SENT, logging.ERROR, "sent"))
    finally:
        logger.removeHandler(bad)


def test_a_name_begins_no_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does it steer the terminal of whoever follows the log."""
    caplog.set_level(logging.INFO, "celery_parrot")
    LogEvents().emit(Event(FIRE_SENT, logging.INFO, "night\n[CRITICAL] all is lost\x1b[2J: sent"))
    assert caplog.records[0].getMessage() == r"night\n[CRITICAL] all is lost\x1b[2J: sent"
