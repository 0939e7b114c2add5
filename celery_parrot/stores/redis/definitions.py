"""From the stored text to a schedule and its trigger, and back. What cannot be read is a reason, never an exception."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final

from celery_parrot.errors import InvalidSchedule, shortened
from celery_parrot.model import codec
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.schedule import Missed, Schedule
from celery_parrot.planning import trigger_of
from celery_parrot.triggers import Trigger

STORE: Final = "redis"

_REASON_CHARS = 500


@dataclass(frozen=True, slots=True)
class Definition:
    """:ivar schedule: None if the text cannot be read. ``trigger``: None if its due times cannot be computed.

    :ivar fault: why; empty if it can run.
    """

    schedule: Schedule | None
    trigger: Trigger | None
    fault: str = ""


def read(raw: bytes, schedule_id: str, timezone: str, allowed: AllowedTasks = EVERY_TASK) -> Definition:
    """The definition in a stored text.

    :param timezone: the zone of a definition that names none.
    :param allowed: what it may call; one that calls something else cannot run.
    """
    schedule = None
    try:
        schedule = _decode(raw, timezone)
        if schedule.schedule_id != schedule_id:
            raise InvalidSchedule(
                "schedule_id", schedule.schedule_id, f"must be {schedule_id!r}, as it is stored under"
            )
        allowed.check(schedule)
        return Definition(schedule, trigger_of(schedule))
    except Exception as exc:  # whatever a text may hold: the others run
        return Definition(schedule, None, fault_of(exc))


def _decode(raw: bytes, timezone: str) -> Schedule:
    """Our own texts name every field. Those of others may have what is usual there: a missed fire is always caught
    up unless ``misfire_grace`` says otherwise, also called ``misfire_grace_time``, and ``coalesce`` is a flag."""
    text = raw.decode()
    whole = '"misfire_grace":' in text and '"timezone":' in text
    flags = text.count('"coalesce"') - text.count('"missed":"coalesce"')  # as a key, not as our own value
    if not whole or flags or '"misfire_grace_time"' in text:
        body = json.loads(text)
        if isinstance(body, dict):
            text = json.dumps(_usual(body, timezone), ensure_ascii=False)
    return codec.decode(text, store=STORE)


def _usual(body: dict[str, Any], timezone: str) -> dict[str, Any]:
    grace = body.pop("misfire_grace_time", None)
    body.setdefault("misfire_grace", grace)
    coalesce = body.pop("coalesce", None)
    if isinstance(coalesce, bool):
        body.setdefault("missed", (Missed.COALESCE if coalesce else Missed.CATCH_UP).value)
    if body.get("timezone") is None:
        body["timezone"] = timezone
    return body


def encode(schedule: Schedule) -> str:
    """The text that is stored. Raises InvalidSchedule for what JSON cannot hold."""
    try:
        return codec.encode(replace(schedule, store=STORE))
    except (TypeError, ValueError) as exc:
        raise InvalidSchedule("definition", None, f"is not JSON: {exc}") from None


def fault_of(exc: Exception) -> str:
    """Why, in one line."""
    text = str(exc) if isinstance(exc, InvalidSchedule) else f"{type(exc).__name__}: {exc}"
    return shortened(text, _REASON_CHARS)


def fingerprint(raw: bytes) -> str:
    """By which a script knows that a text is still the one that was read."""
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()


class DefinitionCache:
    """Definitions that were parsed lately, by id; each is good for exactly one text, whoever wrote it. Bounded, the
    oldest go first. Thread-safe.

    :param most: how many at most. ``weight``: of how many bytes of text together.
    """

    def __init__(
        self,
        timezone: str,
        most: int = 4096,
        weight: int = 16 * 2**20,
        allowed: AllowedTasks = EVERY_TASK,
    ) -> None:
        self._timezone, self._most, self._heaviest = timezone, most, weight
        self._allowed = allowed
        self._kept: OrderedDict[str, tuple[bytes, Definition]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, schedule_id: str, raw: bytes) -> Definition:
        """The definition in this text."""
        with self._lock:
            found = self._kept.get(schedule_id)
            if found is not None and found[0] == raw:
                self._kept.move_to_end(schedule_id)
                return found[1]
        definition = read(raw, schedule_id, self._timezone, self._allowed)
        with self._lock:
            self._drop(schedule_id)
            if len(raw) * 16 <= self._heaviest:  # one that alone would fill a good part of the room is not kept
                self._kept[schedule_id] = (raw, definition)
                self._weight += len(raw)
            while len(self._kept) > self._most or self._weight > self._heaviest:
                self._drop(next(iter(self._kept)))
        return definition

    def _drop(self, schedule_id: str) -> None:
        found = self._kept.pop(schedule_id, None)
        if found is not None:
            self._weight -= len(found[0])
