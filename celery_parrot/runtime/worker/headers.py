"""The ``parrot`` header of a message, read and written on the worker's side.

On the wire it is what the beat sent. While a message is inside a worker it also holds ``token``, the id of this one
delivery, which the worker's main process and its pool processes share in that way. A copy that is put back, or sent
by ``retry()``, goes out without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from celery_parrot.model.fire import FireKey, Origin
from celery_parrot.protocols import Delivery, Progress
from celery_parrot.runtime.current import CurrentFire

UNREADABLE: Final = (KeyError, ValueError, TypeError, OverflowError)
"""What :func:`read_delivery` raises for a header that no beat has written."""

TOKEN: Final = "token"
PUT_BACK: Final = "put_back"


def scheduler_of(header: object, task_id: object) -> str | None:
    """The registered name that a message belongs to, or None if it is no fire of ours.

    A task may hand its own headers on to others (``child.apply_async(headers=self.request.headers)``). Those are not
    the fire: only a message with the fire's own task id is, which retries and later attempts keep.
    """
    if not isinstance(header, Mapping):
        return None
    name, fire_id = header.get("scheduler"), header.get("fire_id")
    if fire_id and task_id != fire_id and not str(task_id).startswith(f"{fire_id}:"):
        return None
    return name if isinstance(name, str) else None


def expires(header: Mapping[str, Any]) -> bool:
    """Whether the fire has a queue deadline: one of a declared kind, one that ``expires`` or holds limits."""
    return bool(header.get("deadline"))


def read_delivery(header: Mapping[str, Any], *, worker: str, retries: int, eta: object, token: str = "") -> Delivery:
    """The delivery that a message's header describes.

    :param eta: the message's own ``eta``. A retry's deadline moves with it: what the fire was allowed to wait in the
        queue counts from there again; a retry that was to start at once has none.
    :raises UNREADABLE: the header is not one that a beat has written.
    """
    due_at = _instant(header["due_at"])
    deadline = _instant(header["deadline"]) if header.get("deadline") else None
    if deadline is not None and retries:
        start = _instant(eta) if eta else None
        deadline = start + max(deadline - due_at, timedelta(0)) if start is not None else None
    key = FireKey(_text(header["schedule_id"]), due_at, _text(header.get("nonce") or ""))
    return Delivery(
        key=key,
        name=_text(header.get("name") or key.schedule_id),
        kind=_text(header.get("kind") or "task"),
        token=token or str(header.get(TOKEN) or ""),
        worker=worker,
        origin=Origin(header.get("origin") or Origin.SCHEDULE),
        attempt=int(header.get("attempt") or 1),
        retries=retries,
        put_back=bool(header.get(PUT_BACK)),
        deadline=deadline,
        limits=bool(header.get("limits")),
        override=_text(header.get("override") or ""),
    )


def read_fire(
    header: Mapping[str, Any],
    delivery: Delivery,
    fire_id: str,
    attempt: int,
    lost: Callable[[], bool] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CurrentFire:
    """What ``current_fire()`` shows for a delivery that runs as ``attempt``. ``lost`` and ``progress`` ask and tell
    whoever keeps its lease; None: nobody does."""
    fire = CurrentFire(
        scheduler=str(header["scheduler"]),
        schedule_id=delivery.key.schedule_id,
        name=delivery.name,
        fire_id=fire_id,
        due_at=delivery.key.due_at,
        origin=str(delivery.origin),
        kind=delivery.kind,
        attempt=attempt,
        deadline=delivery.deadline,
    )
    if lost is not None:
        fire = replace(fire, _lost=lost)
    return fire if progress is None else replace(fire, _progress=progress)


def outgoing(header: Mapping[str, Any], *, put_back: bool) -> dict[str, Any]:
    """The header for a further message of the same fire."""
    copy = {name: value for name, value in header.items() if name not in (TOKEN, PUT_BACK)}
    return copy | ({PUT_BACK: True} if put_back else {})


def _text(value: object) -> str:
    text = str(value)
    text.encode()  # half a surrogate pair is text to Python only; UnicodeEncodeError is a ValueError
    return text


def _instant(value: object) -> datetime:
    instant = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if instant.tzinfo is None:
        raise ValueError(f"{value!r} has no UTC offset")
    return instant
