"""Values of any sort, and how often they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = st.one_of(
    st.text(min_size=1, max_size=40),
    st.lists(
        st.sampled_from(
            (
                ":",
                "{",
                "}",
                "*",
                "?",
                "[",
                "]",
                "\n",
                "\r",
                "\0",
                "'",
                '"',
                "`",
                ";",
                "--",
                "%",
                "\\",
                " ",
                "jobs",
                "state",
            )
        ),
        min_size=1,
        max_size=6,
    ).map("".join),
)
"""Names that would do harm if they became part of a key, of a pattern or of a statement."""

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from((-1, 0, 2**31, 2**63, 10**400, 1e308, float("inf"), float("nan"))),
    st.floats(),
    st.text(max_size=30),
    NAMES,
    st.sampled_from(("0001-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "task", "code", "UTC", "Europe/Madrid", "*")),
)
ODD: tuple[Any, ...] = (
    float("inf"), float("nan"), -1, 0, 10**400, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
    "\ud800", "\0", "\x1b[2J", "x\ny", "", [], {}, [[]], {"a": {}}, True, None, 1.5, "7",
)  # fmt: skip
"""What code that reads fields has most often not thought of."""
VALUES = st.sampled_from(ODD) | st.recursive(
    _leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)
"""What JSON, or a driver of a database, may bring."""


def changed(whole: Mapping[str, Any], values: st.SearchStrategy[Any] = VALUES) -> st.SearchStrategy[dict[str, Any]]:
    """``whole`` with a few of its fields replaced, dropped or added: what is all wrong does not get far."""
    fields = st.dictionaries(st.one_of(st.sampled_from(sorted(whole)), st.text(max_size=8)), values, max_size=3)
    dropped = st.sets(st.sampled_from(sorted(whole)), max_size=2)
    return st.builds(
        lambda new, gone: {key: value for key, value in {**whole, **new}.items() if key not in gone or key in new},
        fields,
        dropped,
    )


def each(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """``whole`` with each field in turn left out, and replaced by each of :data:`ODD`."""
    for key in whole:
        yield {name: value for name, value in whole.items() if name != key}
        for value in ODD:
            yield {**whole, key: value}


def tried(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], *, full: bool, short: int = 150) -> None:
    """Call ``check`` with many values: seconds in the short form, minutes in the long one."""
    many = settings(max_examples=40 * short if full else short, suppress_health_check=list(HealthCheck))
    many(given(strategy)(check))()
