"""Names like one that does not exist."""

from __future__ import annotations

from typing import Any, cast

import pytest

from celery_parrot.client.closest import before, closest_names
from celery_parrot.errors import Unreachable
from celery_parrot.protocols import DefinitionStore, Page

NAMES = sorted([f"s{n:05}" for n in range(2000)] + ["morning report", "Morning brief", "stock", "a"])


class Listed:
    """A store that only lists, by name; says what it was asked."""

    def __init__(self, names: list[str]) -> None:
        self.all, self.asked = names, list[str]()

    def find(self, *, text: str | None = None, after: str = "", limit: int = 100, **_: Any) -> Page:
        assert text is None
        self.asked.append("after")
        found = [name for name in self.all if name > after][:limit]
        return Page(items=tuple(cast(Any, _Named(name)) for name in found))

    def names_with(self, text: str, limit: int) -> list[str]:
        self.asked.append("text")
        return [name for name in self.all if text.lower() in name.lower()][:limit]


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


class Away:
    def find(self, *_: Any, **__: Any) -> Page:
        raise Unreachable("nobody answers")

    names_with = find


def closest(name: str, *stores: Any) -> tuple[str, ...]:
    return closest_names(name, cast("list[DefinitionStore]", stores))


@pytest.mark.parametrize(
    ("typed", "first"),
    [("morning reprt", "morning report"), ("s01500x", "s01500"), ("stok", "stock"), ("s01500 ", "s01500")],
)
def test_a_slip_late_in_a_name_searches_nothing(typed: str, first: str) -> None:
    """The order by name is enough, however many there are."""
    store = Listed(NAMES)
    assert first in closest(typed, store)
    assert set(store.asked) == {"after"}


@pytest.mark.parametrize(
    ("typed", "first"), [("orning report", "morning report"), ("MORNING REPORT", "morning report")]
)
def test_a_slip_at_the_start_is_found_by_its_end(typed: str, first: str) -> None:
    """One search: that looks at all names of a store where few have the part."""
    store = Listed(NAMES)
    assert first in closest(typed, store)
    assert store.asked.count("text") == 1


def test_nothing_like_it_is_nothing() -> None:
    assert closest("xyzzy", Listed(NAMES)) == ()
    assert closest("", Listed(NAMES)) == ()


def test_a_store_that_is_away_keeps_no_other_from_answering() -> None:
    assert closest("morning reprt", Away(), Listed(NAMES))[0] == "morning report"


@pytest.mark.parametrize("start", ["a", "morning", "a b", "é"])
def test_before_a_beginning(start: str) -> None:
    """All that begin with it come after, itself included."""
    assert before(start) < start < f"{start}a"
    assert before("") == ""
