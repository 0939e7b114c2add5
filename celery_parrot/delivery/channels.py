"""Which types of callbacks there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from celery_parrot.delivery import files, mail, notify, own, task, webhook
from celery_parrot.delivery.fields import Fields
from celery_parrot.delivery.means import Letter, Means

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Channel:
    """One way to tell somebody.

    :ivar label: what it is and where it goes, fit to be shown. ``secrets``: what in a specification is not.
    :ivar send: delivers, or raises.
    """

    label: Callable[[Spec], str]
    secrets: Callable[[Spec], list[str]]
    send: Callable[[Spec, Letter, Means], None]


BUILT_IN: Final[Mapping[str, Channel]] = {
    "task": Channel(task.label, task.secrets, task.send),
    "webhook": Channel(webhook.label, webhook.secrets, webhook.send),
    "email": Channel(mail.label, mail.secrets, mail.send),
    "notify": Channel(notify.label, notify.secrets, notify.send),
    "file": Channel(files.label, files.secrets, files.send),
}
CHECKS: Final[Mapping[str, Callable[[Fields], None]]] = {
    "task": task.check,
    "webhook": webhook.check,
    "email": mail.check,
    "notify": notify.check,
    "file": files.check,
}
OWN: Final = Channel(own.label, own.secrets, own.send)
RESULT_MAIL: Final = Channel(lambda spec: f"send_result {mail.label(spec)}", mail.secrets, mail.send)
ALERT: Final = Channel(lambda spec: "alert", mail.secrets, mail.send_alert)


def channel(type_: str) -> Channel:
    """The channel of this type; one that is not built in is the app's own."""
    return BUILT_IN.get(type_, OWN)
