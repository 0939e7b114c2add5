"""What the API can do: one declaration an operation, of which both its handler and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from celery_parrot.client import Schedules
from celery_parrot.flower.api.checks import Schema
from celery_parrot.flower.desk import Desk


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request whose values are checked.

    :ivar given: the parameters by name; one that was not given is absent.
    :ivar body: its JSON object, empty where it has none.
    :ivar version: of ``If-Match``, or of the body; None: whatever is there.
    :ivar actor: who asks, empty where nobody authenticates. ``why_not``: why this request may change nothing; None: it
        may. ``listening``: whether this Flower receives events.
    :ivar prefix: Flower's ``url_prefix`` as the beginning of a path.
    """

    desk: Desk
    given: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    actor: str = ""
    why_not: str | None = None
    listening: bool = False
    prefix: str = ""

    @property
    def client(self) -> Schedules:
        """The verbs."""
        return self.desk.client

    @property
    def name(self) -> str:
        """The schedule or group that the path names."""
        return str(self.given["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """:ivar body: plain JSON; None where the status has none.
    :ivar at: where what was made can be asked for, below ``/parrot/api``.
    :ivar version: of the schedule that is answered.
    """

    body: Any = None
    status: int = 200
    at: str = ""
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One in the path or the query."""

    name: str
    schema: Schema
    text: str
    where: Literal["path", "query"] = "query"


@dataclass(frozen=True, slots=True)
class Answer:
    """One that is no error. :ivar headers: those it has of ``ETag`` and ``Location``."""

    text: str
    schema: Schema | None = None
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """:ivar path: below ``/parrot/api``, with ``{name}`` for what is in it.
    :ivar call: blocks, and knows nothing of Tornado; None: a handler of its own serves it.
    :ivar body: the schema of its JSON object; None: it takes none. ``body_required``: it cannot be left out.
    :ivar versioned: takes ``If-Match``. ``at_hand``: asks neither store nor coordinator.
    :ivar answers: by status. ``refusals``: the error statuses of its own, beside those that follow from the rest.
    """

    method: str
    path: str
    id: str
    summary: str
    text: str = ""
    tag: str
    call: Callable[[Ask], Reply] | None = None
    parameters: Sequence[Parameter] = ()
    body: Schema | None = None
    body_required: bool = False
    versioned: bool = False
    at_hand: bool = False
    answers: Mapping[int, Answer]
    refusals: tuple[int, ...] = ()
    media: str = "application/json"

    @property
    def statuses(self) -> tuple[int, ...]:
        """Of all errors that it may answer."""
        found = {400, 401, 413, 422, 503, *self.refusals}  # a body or a parameter too many is refused everywhere
        if self.method != "GET":
            found |= {403}
        if self.body is not None:
            found |= {415}
        return tuple(sorted(found))
