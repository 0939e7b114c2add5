"""Results and errors as text: readable, cut, and never the reason that something fails."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from celery_parrot.runtime.results import MARKER, cut, format_error, format_result, format_traceback


@dataclass
class Point:
    x: int
    y: object


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("plain", "plain"),
        ("", ""),
        (b"caf\xc3\xa9", "café"),
        (b"\xff", "\ufffd"),
        (True, "true"),
        (3, "3"),
        ({"a": [1, None, "ü🦜"]}, '{"a": [1, null, "ü🦜"]}'),
        ({1: (2, 3)}, '{"1": [2, 3]}'),
        (float("nan"), '"nan"'),
        (Decimal("1.50"), '"1.50"'),
        (datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01 00:00:00+00:00"'),
        (UUID(int=0), '"00000000-0000-0000-0000-000000000000"'),
        (Point(1, {2}), '{"x": 1, "y": [2]}'),
        (ValueError("bad"), "ValueError: bad"),
        ([ValueError("bad")], '["ValueError: bad"]'),
        ("\udc80", "?"),
        ("a\0b", "a\ufffdb"),
        ("😀" * 3, "😀😀😀"),
    ],
)
def test_format_result(value: object, text: str | None) -> None:
    assert format_result(value) == text


@pytest.mark.parametrize(
    "value",
    [Hostile(), {"a": Hostile()}, [10**5000], object(), [lambda: 0], {Hostile(): 1}],
    ids=["hostile", "inside", "digits", "object", "function", "key"],
)
def test_what_cannot_be_shown_is_named(value: object) -> None:
    text = format_result(value)
    assert text
    assert len(text) <= 4096


def endless() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000,
        b"x" * 10_000_000,
        ["x" * 10_000_000],
        list(range(1_000_000)),
        {str(n): n for n in range(100_000)},
        [[[[list(range(1000))] * 1000] * 1000] * 1000] * 1000,
        {"a" * 9000: 1},
    ],
    ids=["text", "bytes", "inside", "list", "dict", "nested", "key"],
)
def test_huge_values_are_cut(value: object) -> None:
    text = format_result(value)
    assert text is not None
    assert len(text) == 4096
    assert text.endswith(MARKER)


def test_a_loop_ends() -> None:
    assert "…" in (format_result(endless()) or "")


def test_the_limit_includes_the_marker() -> None:
    assert format_result("x" * 100) == "x" * 100
    assert format_result("x" * 101, 100) == "x" * 92 + MARKER
    assert cut("abcdef", 3) == "abc"


def test_exactly_the_limit_is_whole() -> None:
    value = ["x" * 4092]
    assert format_result(value) == json.dumps(value)


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        (OSError(2, "no file"), "FileNotFoundError: [Errno 2] no file"),
        (SystemExit(3), "SystemExit: 3"),
        (OSError("no postgresql://u:s3cret@h/db"), "OSError: no postgresql://u:**@h/db"),
    ],
)
def test_format_error(exc: BaseException, text: str) -> None:
    assert format_error(exc) == text


def test_an_error_whose_message_fails() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert format_error(Broken()).startswith("Broken: ")


def test_a_huge_error_is_cut() -> None:
    text = format_error(ValueError("x" * 10_000_000))
    assert len(text) == 4096
    assert text.startswith("ValueError: xxx")


def _raise(message: str) -> None:
    raise ValueError(message)


def _caught(message: str = "no") -> BaseException:
    try:
        _raise(message)
    except ValueError as exc:
        return exc
    raise AssertionError


def test_a_traceback_says_where() -> None:
    """Innermost last, with the error, and what it came from before it."""
    try:
        try:
            _raise("first")
        except ValueError as exc:
            raise KeyError("second") from exc
    except KeyError as exc:
        text = format_traceback(exc) or ""
    assert text.startswith("Traceback (most recent call last):\n  File ")
    assert text.endswith("KeyError: 'second'")
    assert "in _raise" in text
    assert text.index("ValueError: first") < text.index("KeyError: 'second'")


def test_a_traceback_is_cut_at_its_beginning() -> None:
    """The end says what went wrong."""
    text = format_traceback(_caught("x" * 3000), 200) or ""
    assert len(text) == 200
    assert text.startswith("[cut] … ")
    assert text.endswith(MARKER)


def test_a_traceback_has_no_passwords() -> None:
    assert "s3cret" not in (format_traceback(_caught("redis://me:s3cret@host/0")) or "")


def test_an_exception_that_was_never_raised_has_none() -> None:
    assert format_traceback(ValueError("x")) is None
