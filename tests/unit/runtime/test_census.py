"""How many schedules there are: counted now and then, page by page, whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from celery_parrot.client import ScheduleView
from celery_parrot.client.view import SchedulePage
from celery_parrot.protocols import State
from celery_parrot.runtime.census import COUNT_EVERY, Census
from celery_parrot.testing import FakeClock
from tests.support.waiting import wait_until


class Clock(FakeClock):
    """Ends the census instead of its ``end``-th pause. :ivar pauses: how long each was."""

    def __init__(self, end: int) -> None:
        super().__init__()
        self.end, self.pauses = end, list[float]()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.pauses.append(seconds)
        if len(self.pauses) == self.end:
            event.set()
        return super().wait(event, seconds)


class Listing:
    """Three schedules in Redis, two a page, and one in the database. :param before: called at each page."""

    stores = ("redis", "db")

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self._before = before
        self.closed = False

    def find(self, *, store: str | None = None, after: str = "", limit: int = 100) -> SchedulePage:
        self._before()
        states = {
            ("redis", ""): [State.ACTIVE, State.PAUSED],
            ("redis", "2"): [State.ACTIVE],
            ("db", ""): [State.BROKEN],
        }[store or "", after]
        views = [ScheduleView(schedule_id="n", name="n", store=store or "", state=state) for state in states]
        return SchedulePage(views, "2" if len(views) == 2 else "")

    def close(self) -> None:
        self.closed = True


def counted(clock: Clock, listing: Listing) -> Census:
    census = Census(clock, lambda: listing)
    census.start()
    wait_until(lambda: listing.closed, "the census to end", 5)
    return census


COUNTS = {("redis", "active"): 2, ("redis", "paused"): 1, ("db", "broken"): 1}


def test_every_page_of_every_store_is_counted_by_state() -> None:
    """With a pause between two pages, and a long one until the next count."""
    clock = Clock(3)
    assert counted(clock, Listing()).schedules == COUNTS
    first, between, until_the_next = clock.pauses
    assert (first, until_the_next) == (0, COUNT_EVERY)
    assert 0 < between < 1


def test_a_count_that_takes_long_is_repeated_seldom() -> None:
    """Others have more urgent things to ask."""
    clock = Clock(3)
    counted(clock, Listing(lambda: clock.advance(10)))
    assert clock.pauses[-1] == pytest.approx(20 * 30, rel=0.01)


def test_what_cannot_be_counted_keeps_its_last_count_and_is_tried_again_soon() -> None:
    """A store that is away does not make its schedules disappear."""
    clock = Clock(4)

    def away() -> None:
        if len(clock.pauses) == 3:
            raise ConnectionError

    assert counted(clock, Listing(away)).schedules == COUNTS
    assert clock.pauses[2:] == [COUNT_EVERY, 5]
