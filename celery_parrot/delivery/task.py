"""``task``: another Celery task, called as ``task(story, *args, **kwargs)``."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from celery_parrot.delivery.failures import NotDelivered
from celery_parrot.delivery.fields import Fields
from celery_parrot.delivery.means import Letter, Means
from celery_parrot.protocols import Message

_OPTIONS: Final = (
    "queue", "priority", "expires", "countdown", "exchange", "routing_key", "serializer", "compression",
    "time_limit", "soft_time_limit", "headers", "ignore_result",
)  # fmt: skip


_OTHERS_HEADERS: Final = frozenset({"parrot", "task", "id"})
"""Those of fires, and those by which a worker knows what to run: Celery lets options win over its own."""


def check(fields: Fields) -> None:
    """Raises InvalidSchedule."""
    fields.only("type", "name", "task", "args", "kwargs", "options")
    fields.text("name")
    fields.text("task", required=True)
    fields.sequence("args")
    fields.mapping("kwargs")
    options = fields.mapping("options")
    Fields(f"{fields.at}.options", options).only(*_OPTIONS)
    headers = options.get("headers")
    if headers is not None and not isinstance(headers, Mapping):
        fields.refuse("options", "headers must be an object", hidden=True)
    if isinstance(headers, Mapping) and "parrot" in headers:
        fields.refuse("options", "the header parrot belongs to fires", hidden=True)


def label(spec: Mapping[str, Any]) -> str:
    """The task's name."""
    return f"task {spec.get('task')}"


def secrets(spec: Mapping[str, Any]) -> list[str]:
    """Arguments are not shown, whatever an error quotes of them."""
    given = [*(spec.get("args") or ()), *(spec.get("kwargs") or {}).values()]
    return [value for value in given if isinstance(value, str)]


def send(spec: Mapping[str, Any], letter: Letter, means: Means) -> None:
    """Raises NotDelivered, or what the broker says."""
    if means.send_task is None:
        raise NotDelivered("no broker to send it to")
    options = {name: value for name, value in (spec.get("options") or {}).items() if name in _OPTIONS}
    headers = {
        name: value for name, value in (options.pop("headers", None) or {}).items() if name not in _OTHERS_HEADERS
    }
    means.send_task(
        Message(
            task=str(spec["task"]),
            task_id=str(uuid.uuid5(uuid.NAMESPACE_URL, letter.key)),
            args=(letter.parcel.to_json(), *(spec.get("args") or ())),
            kwargs=spec.get("kwargs") or {},
            options=options,
            headers=headers,
        )
    )
