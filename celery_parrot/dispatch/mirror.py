"""What a beat has seen of outbox and line, for a coordinator that forgets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from celery_parrot.model.fire import FireKey

T = TypeVar("T")

PAGE: Final = 1000
"""Fires of one look."""


class Mirror(Generic[T]):
    """Fires in their order, read a page at a time: the first page with each look, one of those behind it in turn.

    So what a thousand others stand before may be some seconds old here. It seldom moves.
    """

    def __init__(self) -> None:
        self._pages: list[dict[FireKey, T]] = [{}]

    @property
    def pages(self) -> int:
        """How many there may be; the last of several is empty or not full."""
        return len(self._pages)

    @property
    def items(self) -> tuple[T, ...]:
        """Each fire once: one that has moved up a page since is on both."""
        found: dict[FireKey, T] = {}
        for page in self._pages:
            for key, item in page.items():
                found.setdefault(key, item)
        return tuple(found.values())

    def saw(self, number: int, page: Iterable[tuple[FireKey, T]]) -> None:
        """What is on a page now, the first being 0."""
        told = dict(page)
        if number > len(self._pages):
            return
        self._pages[number : number + 1] = [told]
        if len(told) < PAGE * 9 // 10:  # of a full one, some may be unreadable
            del self._pages[number + 1 :]
        elif number + 1 == len(self._pages):
            self._pages.append({})

    def add(self, key: FireKey, item: T) -> None:
        """It is there, too, whether it has been seen there or not."""
        page = next((page for page in self._pages if key in page), self._pages[-1])
        page[key] = item

    def left(self, key: FireKey) -> None:
        """It is there no more."""
        for page in self._pages:
            page.pop(key, None)
