"""The seam to the server: what this store needs, and a connected coordinator offers.

The store never connects by itself. Its scripts change run state and history in the same step as definitions, so they
follow the coordinator's own prelude and functions; the two rooms share no import, only this object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Final, Protocol, TypeVar

from celery_parrot.model.fire import FireRecord
from celery_parrot.model.state import RunState

T = TypeVar("T")

CHUNK: Final = 500
"""Items in one script call: more would keep the server from others for too long."""


class Server(Protocol):
    """As :class:`~celery_parrot.coordination.redis.RedisCoordinator`."""

    def ask(self, name: str, body: str, payload: Mapping[str, Any]) -> tuple[datetime, Any]:
        """Run a script after the coordinator's prelude; the server's clock and the answer."""
        ...

    def history_in(self, schedule_id: str, now: datetime, flat: Sequence[bytes]) -> list[FireRecord]:
        """History entries as scripts tell them."""
        ...

    def state_in(self, flat: Sequence[bytes]) -> RunState | None:
        """Run state from the fields and values of its hash."""
        ...


@dataclass(frozen=True, slots=True)
class Scripts:
    """The scripts of this room on one server."""

    server: Server

    def now(self) -> datetime:
        return self.server.ask("store-now", _body("now"), {})[0]

    def one(self, name: str, payload: Mapping[str, Any]) -> tuple[datetime, Any]:
        """One call."""
        return self.server.ask(f"store-{name}", _body(name), payload)

    def each(self, name: str, field: str, items: Sequence[Any], **payload: Any) -> tuple[datetime | None, list[Any]]:
        """One call, or several for a huge batch, whose items do not depend on each other. The clock of the last."""
        now, replies = None, []
        for first in range(0, len(items), CHUNK):
            now, some = self.one(name, {field: items[first : first + CHUNK], **payload})
            replies += some
        return now, replies


@cache
def _body(name: str) -> str:
    folder = resources.files(__package__).joinpath("lua")
    shared = () if name in ("now", "history") else ("shared",)
    return "\n".join(folder.joinpath(f"{part}.lua").read_text("utf-8") for part in (*shared, name))
