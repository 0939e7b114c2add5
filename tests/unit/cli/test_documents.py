"""Schedules as files."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_parrot.cli.documents import read, write

TEXTS = [
    "on",
    "yes",
    "9:30",
    "09",
    "2026-05-01",
    "2026-05-01T09:00:00+02:00",
    "1e5",
    "0x10",
    "~",
    "null",
    "é\n#: x",
    "",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(TEXTS), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(min_size=1), JSON, min_size=1, max_size=3), max_size=3))
def test_what_is_written_is_read_back(documents: list[dict[str, Any]]) -> None:
    """Whatever JSON holds, and what other readers take for dates, booleans or minutes."""
    assert read("\n".join(write(documents)), "x") == (documents, True)


def test_texts_stay_texts() -> None:
    """`on` is no boolean, `9:30` is no number, a date is a text."""
    text = "name: on\nat: 9:30\nday: 2026-05-01\nzero: 09\nflag: true\nnumber: 1.5\nnothing:\n"
    expected = {
        "name": "on", "at": "9:30", "day": "2026-05-01", "zero": "09", "flag": True, "number": 1.5, "nothing": None,
    }  # fmt: skip
    assert read(text, "x") == ([expected], False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "a"}', ([{"name": "a"}], False)),
        ('[{"name": "a"}]', ([{"name": "a"}], True)),
        ("schedules:\n- name: a\n- name: b\n", ([{"name": "a"}, {"name": "b"}], True)),
        ("name: a\n---\nname: b\n", ([{"name": "a"}, {"name": "b"}], True)),
        ("schedules: []\n", ([], True)),
    ],
)
def test_one_or_several(text: str, expected: object) -> None:
    assert read(text, "x") == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "x is not YAML or JSON in line"),
        ("a: 1\na: 2\n", "'a' is there twice"),
        ("a: !!python/object:os.system {}", "x is not YAML or JSON"),
        ("schedules: []\nname: a", "beside 'schedules'"),
        ("{a: 1}: 2", "x is not YAML or JSON"),
        ("\x00", "x is not YAML or JSON"),
        ("a: !!bool perhaps", "x is not YAML or JSON"),
        ("a: !!timestamp today", "x is not YAML or JSON"),
        ("a: &a [*a]", "holds itself"),
        ("".join(f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10 if n else 'x')}]\n" for n in range(10)), "with its aliases"),
        ("", "x holds nothing"),  # a file that was not written to its end must not make apply --prune delete all
        ("# later\n---\n", "x holds nothing"),
        ("schedules:\n", "a list"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(click.ClickException, match=says) as caught:
        read(text, "x")
    assert "\n" not in caught.value.message
