"""Whom to tell, and how: the mail server, the sender, recipients of alerts, where webhooks and files may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery_parrot.delivery import AllowList, MailServer, addresses
from celery_parrot.runtime.conf_source import Source, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """:ivar mail: where mail goes; None: none is sent. Its text form carries no password.
    :ivar queue: of the delivery task; None: as Celery routes it.
    :ivar warnings: what is odd but works, one sentence each.
    """

    alert_recipients: tuple[str, ...] = ()
    mail: MailServer | None = None
    mail_from: str = ""
    queue: str | None = None
    allow: AllowList = field(default_factory=AllowList)
    file_root: Path | None = None
    warnings: tuple[str, ...] = ()


def read_delivery(source: Source) -> DeliverySettings:
    """The settings of deliveries. Raises ConfigurationError for the first that cannot work."""
    mail, sender = _mail(source), _sender(source)
    recipients = _recipients(source)
    if mail is not None and not sender:
        refuse("parrot_mail_from", None, "is not set, but parrot_smtp_url is", "Set the address that mail comes from.")
    warnings = []
    if recipients and mail is None:
        warnings.append(
            f"{source.label('parrot_alert_recipients')} is set, but parrot_smtp_url is not: an alert is only logged"
        )
    return DeliverySettings(
        alert_recipients=recipients,
        mail=mail,
        mail_from=sender,
        queue=_queue(source),
        allow=_allow(source),
        file_root=_file_root(source),
        warnings=tuple(warnings),
    )


def _mail(source: Source) -> MailServer | None:
    url = source.raw("parrot_smtp_url")
    if url is None:
        return None
    fix = "Write it as smtp://user:password@host:587 or smtps://user:password@host:465."
    if not isinstance(url, str):
        refuse("parrot_smtp_url", type(url).__name__, "must be a text", fix)
    try:
        return MailServer.of(url.strip())
    except ValueError as exc:
        # What cannot be read as a URL cannot be masked as one.
        refuse("parrot_smtp_url", f"{url.partition('://')[0][:8]}://…", str(exc), fix)


def _sender(source: Source) -> str:
    value = source.raw("parrot_mail_from")
    if value is None:
        return ""
    found = _addresses("parrot_mail_from", value)
    if len(found) != 1:
        refuse("parrot_mail_from", value, "must be one mail address", "Set one, such as parrot@example.com.")
    return found[0]


def _recipients(source: Source) -> tuple[str, ...]:
    value = source.raw("parrot_alert_recipients")
    return () if value in (None, "", [], ()) else _addresses(source.label("parrot_alert_recipients"), value)


def _addresses(key: str, value: Any) -> tuple[str, ...]:
    try:
        return addresses(value)
    except ValueError as exc:
        refuse(key, value, str(exc), "Set addresses, with commas between them or as a list.")


def _queue(source: Source) -> str | None:
    value = source.raw("parrot_delivery_queue")
    if value is not None and (not isinstance(value, str) or not value.strip()):
        refuse("parrot_delivery_queue", value, "must be the name of a queue", "Set one that a worker listens to.")
    return value


def _allow(source: Source) -> AllowList:
    value = source.raw("parrot_webhook_allow")
    if value is None:
        return AllowList()
    entries: Sequence[Any] = value.split(",") if isinstance(value, str) else value
    fix = "List host names, addresses or networks, such as ['hooks.internal', '10.1.0.0/16']."
    if not isinstance(entries, list | tuple | set | frozenset) or not all(isinstance(one, str) for one in entries):
        refuse("parrot_webhook_allow", value, "must be a list of texts", fix)
    try:
        return AllowList.of(one for one in entries if one.strip())
    except ValueError as exc:
        refuse("parrot_webhook_allow", value, str(exc), fix)


def _file_root(source: Source) -> Path | None:
    value = source.raw("parrot_file_root")
    if value is None:
        return None
    if not isinstance(value, str | Path) or not str(value).strip() or not Path(value).is_absolute():
        refuse("parrot_file_root", value, "must be the whole path of a directory", "Set one, such as /srv/parrot.")
    return Path(value)
