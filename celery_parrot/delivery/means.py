"""What callbacks are delivered with, and what is delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery_parrot.clock import Clock
from celery_parrot.delivery.destinations import AllowList, Resolver, resolve
from celery_parrot.delivery.mailserver import MailServer
from celery_parrot.protocols import Message, Parcel

OwnCallback = Callable[..., object]
"""Called as ``callback(story, key, **options)``: the :class:`~celery_parrot.protocols.Parcel`, the idempotency key,
and what else the specification holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What this process delivers with.

    :ivar mail: the mail server, None where ``parrot_smtp_url`` is not set. ``mail_from``: the sender.
    :ivar alert_recipients: who is told that a schedule was disabled.
    :ivar resume: the command that resumes a schedule, less its name.
    :ivar allow: where webhooks may go besides public addresses.
    :ivar file_root: below which files may be written; None: nowhere.
    :ivar send_task: hands one message to the broker. Raises if it cannot.
    :ivar own: the callbacks that the app registered, by name.
    """

    clock: Clock
    mail: MailServer | None = None
    mail_from: str = ""
    alert_recipients: tuple[str, ...] = ()
    resume: str = "celery parrot resume"
    allow: AllowList = field(default_factory=AllowList)
    file_root: Path | None = None
    send_task: Callable[[Message], None] | None = None
    own: Mapping[str, OwnCallback] = field(default_factory=dict)
    resolve: Resolver = resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One parcel for one callback.

    :ivar key: its idempotency key, ``{fire_id}:{about}:{index}``: the same however often it is delivered.
    :ivar names: values for templates.
    """

    parcel: Parcel
    key: str
    names: Mapping[str, str]


def specification(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a specification holds besides its type and its name."""
    return {name: value for name, value in spec.items() if name not in ("type", "name")}
