"""What a schedule must be to be saved, and what is merely odd about it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from celery_parrot.delivery import OwnCallback, check_all
from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.codec import from_fields
from celery_parrot.model.schedule import TASK_KIND, Kind, Schedule
from celery_parrot.planning import trigger_of
from celery_parrot.triggers import build

MOST_CHARACTERS: Final = 1_000_000
"""Of the arguments, options, config and prompt of one schedule together, as JSON."""

_LONGEST_TEXT: Final = 255
_TEXTS = ("name", "kind", "target", "target_id", "tenant", "method_name", "schedule_type", "timezone")
_JSON = ("args", "kwargs", "options", "schedule_config")
_DECIDED_BY_THE_FIRE = frozenset({"task_id", "producer", "publisher", "connection", "retry"})
_GRACES: Mapping[str, float | None] = {"redis": None}
_DEFAULT_GRACE: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """:ivar kinds: the declared kinds by name.
    :ivar timezone: of schedules that name none.
    :ivar longest_grace: no ``misfire_grace`` may be longer, in seconds: a claim has to outlive it.
    :ivar allowed: what schedules may call.
    :ivar tasks: the names of tasks known here, asked when needed. ``callbacks``: the app's own callbacks.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    timezone: str = "UTC"
    longest_grace: float = 86400.0
    allowed: AllowedTasks = EVERY_TASK
    tasks: Callable[[], Container[str]] = tuple
    callbacks: Callable[[], Mapping[str, OwnCallback]] = dict

    def new(self, fields: Mapping[str, Any], store: str, schedule_id: str, now: datetime) -> Schedule:
        """The schedule that these fields describe, for ``store``.

        :raises InvalidSchedule: naming the field, its value and what would be right.
        """
        given = {"timezone": self.timezone, **_plain(fields), "store": store}
        if "misfire_grace" not in given:
            given["misfire_grace"] = self._grace(store, given.get("kind"))
        check_all(given, self.callbacks())
        return self._checked(from_fields(given, schedule_id=schedule_id), now)

    def changed(self, base: Schedule | None, name: str, fields: Mapping[str, Any], store: str, id_: str) -> Schedule:
        """``base`` with these fields; without one (it cannot be read) they have to make a whole schedule."""
        if fields.get("store", store) != store:
            raise InvalidSchedule("store", fields["store"], f"a schedule stays in its store, which is {store}")
        if "schedule_id" in fields:
            raise InvalidSchedule("schedule_id", fields["schedule_id"], "never changes")
        check_all(fields, self.callbacks())
        fields = _plain(fields)
        if base is None:
            return from_fields({"name": name, "timezone": self.timezone, **fields, "store": store}, schedule_id=id_)
        return from_fields(fields, base=base)

    def checked(self, schedule: Schedule, now: datetime) -> Schedule:
        """``schedule``, if it may be saved. Raises InvalidSchedule."""
        return self._checked(schedule, now)

    def odd(self, schedule: Schedule) -> list[str]:
        """What is odd about it but works, one sentence each."""
        found: list[str] = []
        if schedule.kind != TASK_KIND:
            if schedule.kind not in self.kinds:
                found.append(
                    f"{schedule.name}: kind {schedule.kind!r} is not in parrot_kinds here; it fires only from beats "
                    "that route it"
                )
        elif schedule.target not in self.tasks():
            found.append(f"{schedule.name}: no task {schedule.target!r} is known here; a worker must have it")
        ignored = sorted(_DECIDED_BY_THE_FIRE & schedule.options.keys())
        if ignored:
            found.append(f"{schedule.name}: options {', '.join(ignored)} have no effect; the fire decides them")
        return found

    def _grace(self, store: str, kind: object) -> float | None:
        declared = self.kinds.get(kind) if isinstance(kind, str) else None
        if declared is not None and declared.misfire_grace is not None:
            return declared.misfire_grace
        return _GRACES.get(store, _DEFAULT_GRACE)

    def _checked(self, schedule: Schedule, now: datetime) -> Schedule:
        texts = {name: getattr(schedule, name) for name in _TEXTS}
        for name, value in {**texts, "exclusion_group": schedule.policy.exclusion_group}.items():
            if value is None:
                continue
            if len(value) > _LONGEST_TEXT:
                raise InvalidSchedule(name, value[:40] + " …", f"is longer than {_LONGEST_TEXT} characters")
            if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
                raise InvalidSchedule(name, value, "must not contain control characters")
        self.allowed.check(schedule)
        self.allowed.check_callbacks(schedule)
        size = len(schedule.prompt or "") + sum(_json_size(name, getattr(schedule, name)) for name in _JSON)
        if size > MOST_CHARACTERS:
            raise InvalidSchedule(
                "args", "…", f"arguments, options, config and prompt have {size} characters together; at most "
                f"{MOST_CHARACTERS} are kept: store the data elsewhere and pass a reference"
            )  # fmt: skip
        grace = schedule.policy.misfire_grace
        if grace is not None and grace > self.longest_grace:
            raise InvalidSchedule(
                "misfire_grace", grace, f"is longer than parrot_fire_lock_ttl ({self.longest_grace:g} s); "
                "null means never too late"
            )  # fmt: skip
        # The zone by itself too: a config with one of its own would hide that it is unknown.
        try:
            build("interval", {"seconds": 1, "tz": schedule.timezone})
        except InvalidSchedule as exc:
            raise InvalidSchedule("timezone", schedule.timezone, exc.reason) from None
        trigger_of(schedule if schedule.created_at is not None else replace(schedule, created_at=now))
        return schedule


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Instants in the config as text, as JSON has them."""
    plain = dict(fields)
    config = plain.get("schedule_config")
    if isinstance(config, Mapping):
        plain["schedule_config"] = {
            key: value.isoformat() if isinstance(value, datetime) else value for key, value in config.items()
        }
    return plain


def _json_size(name: str, value: object) -> int:
    try:
        return len(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidSchedule(name, "…", f"is not JSON: {exc}") from None
