"""The fires that were heard of lately, each folded into one record."""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from celery_parrot.clock import new_id
from celery_parrot.flower.folding import folded

KEPT: Final = 10_000
"""Fires that are remembered; the oldest go first."""
BACKLOG: Final = 5000
"""Changes that wait for one subscriber; one that has more to take is dropped."""
CAUGHT_UP: Final = 500
"""Fires that one who comes back is told of at most: the latest. There is room for what comes meanwhile."""

AT_ONCE: Final = 200
"""Changes that are taken at once: of what a slow reader is sent, each has a copy."""
_DIGITS: Final = 18

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FeedPage:
    """:ivar items: records, newest first. :ivar after: where the next page begins; empty: this was the last."""

    items: tuple[Record, ...]
    after: str = ""


@dataclass(frozen=True)
class Change:
    """One, shared by all who are told of it. :ivar mark: where the next begins. ``number``: they count from 1."""

    mark: str
    number: int
    record: Record

    @cached_property
    def text(self) -> str:
        """The record as JSON, made once however many streams it goes to."""
        return json.dumps(self.record)


class Subscription:
    """The changes that one reader has not taken yet.

    :param wake: called, in the thread that hears, when there is something to take and was nothing, or it is dropped.
    :ivar dropped: it was too slow, and gets nothing more.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._changes: deque[Change] = deque()
        self.dropped = False

    def put(self, change: Change) -> None:
        """Keep a change until it is taken."""
        if self.dropped:
            return
        told = bool(self._changes)
        if len(self._changes) >= BACKLOG:
            self.dropped = True
            self._changes.clear()
        else:
            self._changes.append(change)
        if self.dropped or not told:
            self._wake()

    @property
    def waits(self) -> bool:
        """Whether there is something to take."""
        return bool(self._changes)

    def take(self) -> list[Change]:
        """What has changed, oldest first; some of it, where that is much."""
        taken: list[Change] = []
        while self._changes and len(taken) < AT_ONCE:
            taken.append(self._changes.popleft())
        return taken


class Feed:
    """Thread-safe: filled by Flower's receiver, read by requests.

    :param scheduler: the registered name; fires of others are not ours. None: everybody's.
    """

    def __init__(self, scheduler: str | None = None, *, kept: int = KEPT) -> None:
        self._scheduler, self._kept = scheduler, kept
        self._lock = threading.Lock()
        self._records: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._told: OrderedDict[str, Change] = OrderedDict()  # the last change of each record, in their order
        self._seen = self._changes = 0
        self._subscriptions: set[Subscription] = set()
        self._epoch = new_id()[:8]

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take note of a Celery event; what is not about one of our fires is left aside."""
        fire_id = event.get("fire_id")
        if not isinstance(fire_id, str) or (self._scheduler is not None and event.get("scheduler") != self._scheduler):
            return
        with self._lock:
            known = self._records.get(fire_id)
            record = folded(known, event)
            if record is None or record == known:
                return
            self._changes += 1
            if known is None:
                self._seen += 1
                record["seen"] = self._seen
            self._records[fire_id] = record
            change = self._told[fire_id] = Change(f"{self._epoch}-{self._changes}", self._changes, _shown(record))
            self._told.move_to_end(fire_id)
            if len(self._records) > self._kept:
                self._told.pop(self._records.popitem(last=False)[0])
            for subscription in self._subscriptions:
                subscription.put(change)

    def page(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        text: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> FeedPage:
        """Fires that match all of what is given, those heard of last first.

        :param text: part of a schedule's name or id, of a fire's id, or of a worker's name, in any case.
        :param after: of the page before. :raises ValueError: if it is none.
        """
        before = int(after) if after else None
        found: list[dict[str, Any]] = []
        for record in self._newest_first():
            if (before is not None and record["seen"] >= before) or not _matches(record, kind, status, text):
                continue
            if len(found) == limit:
                return FeedPage(tuple(map(_shown, found)), str(found[-1]["seen"]) if found else "")
            found.append(record)
        return FeedPage(tuple(map(_shown, found)))

    def subscribe(self, wake: Callable[[], object], since: str = "") -> Subscription:
        """Be told of changes from now on.

        :param since: the mark of the last change that was taken, to begin behind it; of a long time ago: with the
            latest ones.
        """
        subscription = Subscription(wake)
        with self._lock:
            for change in self._changed(since):
                subscription.put(change)
            self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more changes."""
        with self._lock:
            self._subscriptions.discard(subscription)

    # --- inside ---

    def _newest_first(self) -> Iterator[dict[str, Any]]:
        with self._lock:  # records are replaced, never changed
            return iter(list(reversed(self._records.values())))

    def _changed(self, since: str) -> list[Change]:
        epoch, _, number = since.partition("-")
        if epoch != self._epoch or not number.isdecimal() or len(number) > _DIGITS:
            return []
        missed = itertools.takewhile(lambda change: change.number > int(number), reversed(self._told.values()))
        return list(itertools.islice(missed, CAUGHT_UP))[::-1]


def _shown(record: Mapping[str, Any]) -> Record:
    return {key: value for key, value in record.items() if key not in ("seen", "change", "sent_as")}


def _matches(record: Mapping[str, Any], kind: str | None, status: str | None, text: str | None) -> bool:
    if (kind and record["kind"] != kind) or (status and record["status"] != status):
        return False
    return not text or any(
        text.casefold() in str(record[key] or "").casefold() for key in ("schedule", "schedule_id", "fire_id", "worker")
    )
