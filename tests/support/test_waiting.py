"""Waiting: polls until true, and says what it waited for when it gives up."""

from __future__ import annotations

import pytest

from tests.support.waiting import stays, wait_until


def test_the_first_truthy_value_is_returned() -> None:
    """The value of the predicate comes back, so that a wait can also fetch."""
    answers = iter([None, [], ["found"]])
    assert wait_until(lambda: next(answers), "a find", 1, interval=0.001) == ["found"]


def test_a_failure_names_what_was_waited_for_and_the_last_answer() -> None:
    """The message reads as a sentence and carries the explanation."""
    with pytest.raises(AssertionError, match=r"waited 0.05 s for the third fire; last answer: 0\nthe log says so"):
        wait_until(lambda: 0, "the third fire", 0.05, explain=lambda: "the log says so")


def test_an_exception_counts_as_not_yet_and_is_shown() -> None:
    """A server that refuses connections is still starting; if it never answers, its error is the message."""

    def refuse() -> bool:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(AssertionError, match="last error: ConnectionRefusedError: nobody there"):
        wait_until(refuse, "a server", 0.05)


def test_stays_fails_at_the_first_false_value() -> None:
    """A claim that nothing happens fails as soon as something does."""
    answers = iter([True, True, False])
    with pytest.raises(AssertionError, match=r"both beats alive held for .* only, not 5 s"):
        stays(lambda: next(answers), "both beats alive", 5, interval=0.001)
