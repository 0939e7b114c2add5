"""What a beat remembers of a list that it reads a page at a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from celery_parrot.dispatch.mirror import PAGE, Mirror
from celery_parrot.model.fire import FireKey

BASE = datetime(2026, 1, 1, tzinfo=UTC)


def key(n: int) -> FireKey:
    return FireKey("s", BASE + timedelta(seconds=n))


def page(numbers: Iterable[int], said: str = "") -> list[tuple[FireKey, str]]:
    return [(key(n), said or str(n)) for n in numbers]


def test_one_page_is_what_was_seen_last() -> None:
    mirror = Mirror[str]()
    mirror.saw(0, page((1, 2)))
    mirror.add(key(3), "3")
    mirror.left(key(1))
    assert (mirror.items, mirror.pages) == (("2", "3"), 1)
    mirror.saw(0, page((2, 4)))
    assert mirror.items == ("2", "4")


def test_a_full_page_has_others_behind_it_that_stay_until_they_are_looked_at() -> None:
    mirror = Mirror[str]()
    mirror.saw(0, page(range(PAGE)))
    assert mirror.pages == 2
    mirror.saw(1, page(range(PAGE, PAGE + 5)))
    mirror.saw(0, page(range(5, PAGE + 5), "moved up"))
    assert mirror.items == ("moved up",) * PAGE
    mirror.saw(1, page(()))
    assert (len(mirror.items), mirror.pages) == (PAGE, 2)


def test_what_is_added_or_has_left_is_so_on_every_page() -> None:
    mirror = Mirror[str]()
    mirror.saw(0, page(range(PAGE)))
    mirror.saw(1, page(range(PAGE - 1, PAGE + 1)))
    mirror.left(key(PAGE - 1))
    mirror.add(key(0), "again")
    mirror.add(key(-1), "behind all")
    assert mirror.items == ("again", *(str(n) for n in range(1, PAGE - 1)), str(PAGE), "behind all")


def test_a_page_that_is_not_full_is_the_last() -> None:
    mirror = Mirror[str]()
    mirror.saw(0, page(range(PAGE)))
    mirror.saw(1, page(range(PAGE, 2 * PAGE)))
    assert mirror.pages == 3
    mirror.saw(0, page(range(7)))
    assert (len(mirror.items), mirror.pages) == (7, 1)
    mirror.saw(2, page(range(3)))
    assert len(mirror.items) == 7
