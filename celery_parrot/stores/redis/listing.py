"""Definitions as people see them: with their run state, and with the reason where one cannot run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from celery_parrot.errors import shortened
from celery_parrot.model.fire import FireRecord
from celery_parrot.planning import following, next_sending
from celery_parrot.protocols.editing import Page, State, Stored
from celery_parrot.stores.redis.definitions import DefinitionCache, fault_of
from celery_parrot.stores.redis.marks import iso
from celery_parrot.stores.redis.rows import Row, row_in
from celery_parrot.stores.redis.server import CHUNK, Scripts

_RAW_CHARS = 500
_SEARCHED = 4 * CHUNK
"""Definitions that one call searches; those that do not match are not sent."""
_PLAIN = re.compile(r"[ !#-\[\]-~]+")
"""Texts that are the same in JSON, and in lower case to the server."""


class Listing:
    """Reads only."""

    def __init__(self, scripts: Scripts, cache: DefinitionCache) -> None:
        self._scripts, self._cache = scripts, cache

    def get(self, names_or_ids: Sequence[str]) -> list[Stored | None]:
        """See the protocol. A name wins over an id."""
        now, replies = self._scripts.each("look", "texts", list(names_or_ids), names=True)
        rows = [self._row(reply) for reply in replies]
        return [None if row is None or now is None else _stored(row, now) for row in rows]

    def find(self, kind: str | None, state: State | None, text: str | None, after: str, limit: int) -> Page:
        """See the protocol."""
        words = text.lower() if text else ""
        found: list[tuple[str, Stored]] = []  # with the name it is ordered by
        narrow = kind is not None or state is not None or bool(words)
        for now, replies in self._candidates(kind, state, words, after, max(limit, 0) + 1):
            for reply in replies:
                name = reply[4].decode()
                if not reply[1] or (narrow and not _may_match(reply[1], name, kind, words)):
                    continue
                row = self._row(reply)
                if row is not None and _wanted(row, stored := _stored(row, now), kind, state, words):
                    found.append((name, stored))
            if len(found) > max(limit, 0):
                break
        shown = found[: max(limit, 0)]
        after = shown[-1][0] if shown and len(found) > len(shown) else ""
        return Page(items=tuple(stored for _, stored in shown), after=after)

    def _candidates(
        self, kind: str | None, state: State | None, words: str, after: str, enough: int
    ) -> Iterator[tuple[datetime, Sequence[Any]]]:
        """What may match, chunk by chunk in the order of names; the server leaves out what it can tell does not."""
        asked: dict[str, Any] = {} if kind is None else {"kind": kind}
        if _PLAIN.fullmatch(words):
            asked["text"] = words
        if state in (State.PAUSED, State.DISABLED):
            asked["waits"] = True
        if {"text", "waits"} & asked.keys():
            yield from self._searched(asked, after, min(enough, CHUNK))
            return
        count = min(enough, CHUNK) if state is None and not words else CHUNK
        more = True
        while more:
            now, replies = self._scripts.one("look", {"after": after, "count": count, **asked})
            yield now, [reply for reply in replies if reply]
            more = len(replies) == count
            after = replies[-1][4].decode() if more else ""

    def _searched(self, asked: dict[str, Any], after: str, most: int) -> Iterator[tuple[datetime, Sequence[Any]]]:
        more = True
        while more:
            where = {"after": after, "count": _SEARCHED, "most": most}
            now, (last, replies) = self._scripts.one("search", {**where, **asked})
            yield now, replies
            after = last.decode()
            more = bool(after)

    def names_with(self, text: str, limit: int) -> list[str]:
        """See the protocol. The server knows lower case of ASCII only."""
        words = text.lower()
        asked = {"text": words if words.isascii() else "", "count": _SEARCHED}
        found: list[str] = []
        after, more = "", True
        while more and len(found) < limit:
            _, (last, some) = self._scripts.one("names", {"after": after, **asked})
            found += [name for one in some if words in (name := one.decode()).lower()]
            after = last.decode()
            more = bool(after)
        return found[:limit]

    def fires(self, schedule_id: str, limit: int, before: datetime | None) -> list[FireRecord]:
        """See the protocol."""
        payload: dict[str, Any] = {"id": schedule_id, "limit": max(limit, 0)}
        if before is not None:
            payload["before"] = iso(before)
        now, flat = self._scripts.one("history", payload)
        return self._scripts.server.history_in(schedule_id, now, flat)

    def _row(self, reply: Sequence[object]) -> Row | None:
        return row_in(reply, self._scripts.server, self._cache)


def _may_match(raw: bytes, name: str, kind: str | None, words: str) -> bool:
    """Cheaper than to build what will not be shown."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return True
    if not isinstance(body, dict):
        return True
    if kind is not None and body.get("kind", kind) != kind:
        return False
    return not words or words in name.lower() or words in str(body.get("target", "")).lower()


def _wanted(row: Row, stored: Stored, kind: str | None, state: State | None, words: str) -> bool:
    if (kind is not None and row.kind != kind) or (state is not None and stored.state is not state):
        return False
    target = "" if stored.schedule is None else stored.schedule.target
    return not words or words in stored.name.lower() or words in target.lower()


def _stored(row: Row, now: datetime) -> Stored:
    schedule = row.definition.schedule
    fault = row.fields.get("broken") or row.definition.fault
    waiting = row.held is not None or (schedule is not None and not schedule.enabled)
    next_run = None
    if not fault:
        try:
            next_run = _next_run(row, waiting, now)
        except Exception as exc:  # what a trigger may raise
            fault = fault_of(exc)
    return Stored(
        schedule_id=row.schedule_id,
        name=row.name,
        schedule=schedule,
        run_state=replace(row.run_state, next_run=next_run),
        state=_state(row, fault, waiting, next_run),
        held=row.held,
        note=row.fields.get("note"),
        broken_reason=fault or None,
        raw=shortened(row.raw.decode("utf-8", "replace"), _RAW_CHARS) if fault else "",
        updated_at=datetime.fromisoformat(row.fields["updated_at"]) if row.fields.get("updated_at") else None,
    )


def _next_run(row: Row, waiting: bool, now: datetime) -> datetime | None:
    """As it is; of a paused one, as it would be."""
    schedule, trigger = row.definition.schedule, row.definition.trigger
    assert schedule is not None
    assert trigger is not None
    if waiting:
        return next_sending(schedule, trigger, max(row.mark, now))
    return following(schedule, trigger, row.mark, row.run_state.auto_count)


def _state(row: Row, fault: str, waiting: bool, next_run: datetime | None) -> State:
    if fault:
        return State.BROKEN
    if row.held is not None and row.held != "person":
        return State.DISABLED
    if waiting:
        return State.PAUSED
    return State.ACTIVE if next_run is not None else State.COMPLETED
