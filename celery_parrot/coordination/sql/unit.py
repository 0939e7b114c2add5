"""One transaction over the tables of one registered name: what its parts share."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from celery_parrot.coordination.sql.tables import Tables
from celery_parrot.model.fire import FireKey, Namespace


@dataclass(slots=True)
class Unit:
    """:ivar space: the id of the registered name. ``now``: the server's clock when the name was locked, UTC.
    :ivar places: how many places have been given out in orders of this name.
    :ivar hinted: fires that are going to be asked for. ``hinted_schedules``: schedules, those of the fires included.
    """

    connection: Connection
    tables: Tables
    namespace: Namespace
    space: int
    now: datetime
    places: int = 0
    hinted: dict[FireKey, None] = field(default_factory=dict)
    hinted_schedules: dict[str, None] = field(default_factory=dict)
    _ids: dict[FireKey, str] = field(default_factory=dict)

    def hint(self, key: FireKey) -> None:
        self.hinted[key] = None
        self.hinted_schedules[key.schedule_id] = None

    def fire_id(self, key: FireKey) -> str:
        """The key of a fire's rows. It is made of the registered name, too: no two names have one in common."""
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = self.namespace.fire_id(key)
        return found

    def schedule(self, schedule_id: str) -> str:
        """The key of a schedule's rows. An id may be of any length, what is indexed may not."""
        return self._named("schedule", schedule_id)

    def limit(self, name: str) -> str:
        """The key of a limit's rows."""
        return self._named("limit", name)

    def wanted(self, limits: str) -> str:
        """The key of those in line that want these limits, given as text."""
        return self._named("wanted", limits)

    def parcel(self, id_: str) -> str:
        """The key of a parcel's row."""
        return self._named("parcel", id_)

    def _named(self, what: str, name: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.namespace.prefix}{what}/{name}"))


def readable(text: str) -> str:
    """For people who look at the tables: any text, less what some database would refuse."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
