"""Errors survive the way between processes, and showing a value never fails."""

from __future__ import annotations

import pickle

import pytest

from celery_parrot.errors import (
    ConfigurationError,
    Conflict,
    FireNotFound,
    GroupNotFound,
    InvalidSchedule,
    ParrotError,
    StoreUnreachable,
)


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("parrot_name", "", "is empty", "Give it a name"),
        InvalidSchedule("expr", "x", "is no cron expression"),
        StoreUnreachable("db", "connection refused"),
        Conflict("nightly", 3, 4),
        FireNotFound("nightly", "f1"),
        GroupNotFound("gpo", ("gpu",)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_out_of_a_pickle_as_it_went_in(error: ParrotError) -> None:
    """Celery carries exceptions between processes."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_value_that_is_not_there_is_not_shown() -> None:
    """Python's None says nothing to whoever left a field empty."""
    assert str(InvalidSchedule("name", None, "is required")) == "name: is required"


def test_an_absurd_value_is_shown_short() -> None:
    """A number too long to print, a value too long to read: the error still names the field."""
    assert str(InvalidSchedule("n", 10**5000, "is too large")) == "n = <int>: is too large"
    shown = str(InvalidSchedule("name", "x" * 10_000, "is too long"))
    assert shown.endswith("… [cut]: is too long")
    assert len(shown) < 300
