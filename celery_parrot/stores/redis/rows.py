"""A stored definition with everything that is known of it, as the scripts tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from celery_parrot.model.state import RunState
from celery_parrot.planning import EARLIEST
from celery_parrot.stores.redis.definitions import Definition, DefinitionCache
from celery_parrot.stores.redis.server import Server


@dataclass(frozen=True, slots=True)
class Row:
    """:ivar mark_text: the mark as stored, for comparison. ``fires``: how many history entries there are."""

    schedule_id: str
    raw: bytes
    definition: Definition
    run_state: RunState
    fires: int
    fields: Mapping[str, str]

    @property
    def mark_text(self) -> str:
        return self.fields.get("last_due", "")

    @property
    def mark(self) -> datetime:
        schedule = self.definition.schedule
        created = EARLIEST if schedule is None or schedule.created_at is None else schedule.created_at
        return self.run_state.last_due or created

    @property
    def held(self) -> str | None:
        return self.fields.get("disabled_by") or None

    @property
    def version(self) -> int:
        """Also of a definition that cannot be read."""
        if self.definition.schedule is not None:
            return self.definition.schedule.version
        return int(self.fields.get("version", "1"))

    @property
    def name(self) -> str:
        if self.definition.schedule is not None:
            return self.definition.schedule.name
        return self.fields.get("name", self.schedule_id)

    @property
    def kind(self) -> str:
        if self.definition.schedule is not None:
            return self.definition.schedule.kind
        return self.fields.get("kind", "task")


def row_in(reply: Sequence[object], server: Server, cache: DefinitionCache) -> Row | None:
    """One answer of the script ``look``."""
    if not reply:
        return None
    id_, raw, fires, flat, _ = reply
    assert isinstance(id_, bytes)
    assert isinstance(raw, bytes)
    assert isinstance(fires, int)
    assert isinstance(flat, list)
    schedule_id = id_.decode()
    return Row(
        schedule_id=schedule_id,
        raw=raw,
        definition=cache.get(schedule_id, raw),
        run_state=server.state_in(flat) or RunState(),
        fires=fires,
        fields={name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)},
    )
