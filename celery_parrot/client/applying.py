"""From documents to what has to change, and from schedules to documents."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from celery_parrot.client.catalogue import CODE, Catalogue
from celery_parrot.client.rules import Rules
from celery_parrot.client.view import ScheduleView
from celery_parrot.clock import Clock, new_id
from celery_parrot.errors import Conflict, InvalidSchedule, ParrotError, ScheduleExists, ScheduleNotFound
from celery_parrot.model.codec import to_fields
from celery_parrot.model.fields import FIELDS, REQUIRED
from celery_parrot.protocols import DefinitionStore, Stored

if TYPE_CHECKING:
    from celery_parrot.client.schedules import Schedules

READ_ONLY: Final = frozenset({
    "schedule_id", "version", "state", "next_run", "run_state", "note", "broken_reason", "created_at", "updated_at",
    "description",
})  # fmt: skip
"""What reading a schedule adds to its fields. In a document they are left alone, but for ``version``."""

_ALWAYS: Final = ("name", "store", *REQUIRED, "timezone", "misfire_grace")
_PAGE: Final = 500


class Action(StrEnum):
    """What a step does. ``refused``: nothing, its ``error`` says why."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One schedule of a comparison.

    :ivar changes: field → what it is and what it will be, in the order of the fields.
    :ivar version: the version that was compared with; another one by the time it is written is refused.
    :ivar field: which field is at fault, where it is one.
    """

    name: str
    action: Action
    store: str = ""
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    version: int | None = None
    error: str = ""
    field: str = ""


def document_of(view: ScheduleView) -> dict[str, Any]:
    """The fields of a schedule as a document: what differs from the default, and what a default may differ in from one
    app to the next."""
    found: dict[str, Any] = {}
    for one in FIELDS:
        value = _plain(getattr(view, one.name, one.default))
        default = list(one.default) if isinstance(one.default, tuple) else one.default
        if one.name in _ALWAYS or value != default:
            found[one.name] = value
    return found


@dataclass(frozen=True, slots=True)
class Comparing:
    """Reads only."""

    catalogue: Catalogue
    rules: Rules
    clock: Clock

    def steps(self, documents: Sequence[Any], prune: bool, store: str | None, kind: str | None) -> list[Step]:
        """See ``Schedules.compare``."""
        names = [_name_of(document, number) for number, document in enumerate(documents, 1)]
        there = self._there([name for name in names if isinstance(name, str)])
        seen: set[str] = set()
        steps: list[Step] = []
        for name, document in zip(names, documents, strict=True):
            if isinstance(name, Step):
                steps.append(name)
            elif name in seen:
                steps.append(_refused(name, InvalidSchedule("name", name, "is in the documents more than once")))
            else:
                seen.add(name)
                steps.append(self._step(name, document, there.get(name)))
        if prune:
            if any(isinstance(name, Step) for name in names):
                raise ParrotError("one of the documents has no name: nothing is pruned, for it might be that one")
            steps += self._pruned(seen, store, kind)
        return steps

    def _step(self, name: str, document: Mapping[str, Any], there: tuple[str, Stored] | None) -> Step:
        fields = {key: value for key, value in document.items() if key not in READ_ONLY}
        try:
            if there is None:
                return self._new(name, fields)
            return self._changed(name, fields, document.get("version"), *there)
        except (InvalidSchedule, Conflict, ParrotError) as exc:
            return _refused(name, exc)

    def _new(self, name: str, fields: Mapping[str, Any]) -> Step:
        store = self.catalogue.store_for(fields.get("store"))
        # Checked as if it were saved now; what is saved is made from the fields again.
        self.rules.new(fields, store, str(uuid.UUID(new_id())), self.clock.now())
        changes = {one.name: (None, fields[one.name]) for one in FIELDS if one.name in fields and one.name != "name"}
        return Step(name=name, action=Action.CREATE, store=store, changes=changes)

    def _changed(self, name: str, fields: Mapping[str, Any], version: object, store: str, stored: Stored) -> Step:
        if store == CODE:
            raise InvalidSchedule("name", name, "is defined in the code and changed there")
        if fields.get("store") not in (None, store):
            raise InvalidSchedule("store", fields["store"], f"a schedule stays in its store, which is {store}")
        current = None if stored.schedule is None else stored.schedule.version
        if version is not None and current is not None and version != current:
            given = version if isinstance(version, int) else 0
            raise Conflict(name, given, current)
        schedule = self.rules.new({**fields, "store": store}, store, stored.schedule_id, self.clock.now())
        wanted = to_fields(schedule)
        present = {} if stored.schedule is None else to_fields(stored.schedule)
        changes = {
            one.name: (_plain(present.get(one.name)), _plain(wanted[one.name]))
            for one in FIELDS
            if one.name in wanted and (one.name not in present or _plain(present[one.name]) != _plain(wanted[one.name]))
        }
        changes.pop("store", None)
        action = Action.UPDATE if changes else Action.UNCHANGED
        return Step(name=name, action=action, store=store, changes=changes, version=current)

    def _pruned(self, named: set[str], store: str | None, kind: str | None) -> Iterable[Step]:
        for name, one in self.catalogue.editable.items():
            if store not in (None, name):
                continue
            for stored in _pages(one, kind):
                if stored.name not in named:
                    version = None if stored.schedule is None else stored.schedule.version
                    yield Step(name=stored.name, action=Action.DELETE, store=name, version=version)

    def _there(self, names: Sequence[str]) -> dict[str, tuple[str, Stored]]:
        """Those that exist, by name; an id is no name here."""
        found: dict[str, tuple[str, Stored]] = {}
        for store, one in self.catalogue.all.items():
            for first in range(0, len(names), _PAGE):
                batch = names[first : first + _PAGE]
                for name, stored in zip(batch, one.get(batch), strict=True):
                    if stored is not None and stored.name == name:
                        found.setdefault(name, (store, stored))
        return found


def carried_out(client: Schedules, step: Step) -> Step:
    """See ``Schedules.carry_out``."""
    new = {name: after for name, (_, after) in step.changes.items()}
    try:
        if step.action is Action.CREATE:
            client.create(**{**new, "name": step.name})
        elif step.action is Action.UPDATE:
            client.update(step.name, version=step.version, **new)
        elif step.action is Action.DELETE:
            client.delete(step.name, version=step.version)
    except ScheduleNotFound:
        if step.action is not Action.DELETE:
            return _refused(step.name, ScheduleNotFound(step.name))
    except (InvalidSchedule, Conflict, ScheduleExists) as exc:
        return _refused(step.name, exc)
    return step


def _pages(store: DefinitionStore, kind: str | None) -> Iterable[Stored]:
    after = ""
    while True:
        page = store.find(kind=kind, after=after, limit=_PAGE)
        yield from page.items
        after = page.after
        if not after:
            return


def _name_of(document: object, number: int) -> str | Step:
    if not isinstance(document, Mapping):
        exc = InvalidSchedule("schedule", document, "must be an object with the fields of a schedule")
        return _refused(f"number {number}", exc)
    name = document.get("name")
    if not isinstance(name, str) or not name.strip():
        return _refused(f"number {number}", InvalidSchedule("name", name, "is required, a text"))
    return name


def _refused(name: str, error: ParrotError) -> Step:
    at_fault = error.field if isinstance(error, InvalidSchedule) else ""
    return Step(name=name, action=Action.REFUSED, error=str(error), field=at_fault)


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


__all__ = ["READ_ONLY", "Action", "Comparing", "Step", "carried_out", "document_of"]
