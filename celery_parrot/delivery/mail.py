"""``email``, the mail with the result, and the alert: one mail to all recipients."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, Final

from celery_parrot.delivery import templates
from celery_parrot.delivery.failures import NotDelivered
from celery_parrot.delivery.fields import Fields, addresses
from celery_parrot.delivery.means import Letter, Means

INLINE: Final = 2000
"""Characters of a result up to which it stands in the mail; a longer one is attached."""

_SUBJECT: Final = "$name: $status"
_MESSAGE: Final = "$name, due $due_at: $status"
_FAILURE: Final = "$name, due $due_at: $status $reason\n\n$error"
_MISSED: Final = "$name: $count due times from $due_at to $until were missed ($reason)"
_SUBJECT_CHARS: Final = 200
_CONTENT: Final = ("subject", "message", "include_result")


def check(fields: Fields) -> None:
    """A callback of type ``email``. Raises InvalidSchedule."""
    fields.only("type", "name", "to", *_CONTENT)
    fields.text("name")
    fields.recipients("to")
    _check_content(fields)


def check_result_mail(fields: Fields) -> None:
    """``send_result``. Raises InvalidSchedule."""
    fields.only("recipients", "to", *_CONTENT)
    fields.recipients("recipients", "to")
    _check_content(fields)


def _check_content(fields: Fields) -> None:
    fields.template("subject")
    fields.template("message")
    fields.flag("include_result")


def label(spec: Mapping[str, Any]) -> str:
    """To whom."""
    try:
        found = addresses(_recipients(spec))
    except ValueError:
        return "email"
    return f"email {found[0]}" + (f" and {len(found) - 1} more" if len(found) > 1 else "")


def secrets(spec: Mapping[str, Any]) -> list[str]:
    """None."""
    return []


def send(spec: Mapping[str, Any], letter: Letter, means: Means) -> None:
    """Raises NotDelivered, SMTPException, OSError."""
    try:
        recipients = addresses(_recipients(spec))
    except ValueError as exc:
        raise NotDelivered(f"the recipients cannot be read: it {exc}", final=True) from None
    parcel = letter.parcel
    text = templates.render(str(spec.get("message") or _default_message(letter)), letter.names)
    subject = templates.render(str(spec.get("subject") or _SUBJECT), letter.names)
    attached = None
    if spec.get("include_result", True) and parcel.output is not None:
        if len(parcel.output) <= INLINE:
            text = f"{text}\n\n{parcel.output}"
        else:
            attached = parcel.output
            text = f"{text}\n\nThe result is attached."
    _send(means, letter, recipients, subject, text, attached)


def send_alert(spec: Mapping[str, Any], letter: Letter, means: Means) -> None:
    """That a schedule was disabled. Raises as :func:`send`."""
    parcel = letter.parcel
    first = parcel.failing_since
    since = "" if first is None else f", the first at {first.isoformat(timespec='seconds')}"
    text = (
        f"The schedule {parcel.name} was disabled after {parcel.failures} failures in a row{since}.\n\n"
        f"Last error: {parcel.error or parcel.reason or parcel.status}\n"
        f"of the fire due {parcel.due_at.isoformat()}, id {parcel.fire_id}\n\n"
        f"It does not fire until somebody resumes it:\n\n    {resume_command(means.resume, parcel.name)}\n"
    )
    _send(means, letter, means.alert_recipients, f"{parcel.name} was disabled after {parcel.failures} failures", text)


def resume_command(command: str, name: str) -> str:
    """What to type. The name as a shell takes it."""
    return f"{command} {shlex.quote(name)}"


def _send(
    means: Means, letter: Letter, recipients: Sequence[str], subject: str, text: str, attached: str | None = None
) -> None:
    if means.mail is None:
        raise NotDelivered("parrot_smtp_url is not set on this worker")
    mail = EmailMessage(policy=SMTP)
    mail["From"] = means.mail_from
    mail["To"] = ", ".join(recipients)
    # The library decodes encoded words in a value and writes their line ends out: what they hide would be headers.
    mail["Subject"] = templates.one_line(subject, _SUBJECT_CHARS).replace("=?", "= ?")
    mail["Date"] = format_datetime(means.clock.now())
    # The same for every try: who gets it twice can tell.
    mail["Message-ID"] = f"<{uuid.uuid5(uuid.NAMESPACE_URL, letter.key)}@celery-parrot>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(_clean(text))
    if attached is not None:
        mail.add_attachment(_clean(attached), filename="result.txt")
    means.mail.send(mail, tuple(recipients), means.clock)


def _clean(text: str) -> str:
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _default_message(letter: Letter) -> str:
    parcel = letter.parcel
    if parcel.about == "missed":
        return _MISSED
    return _FAILURE if parcel.about == "failure" else _MESSAGE


def _recipients(spec: Mapping[str, Any]) -> Any:
    return spec.get("recipients") or spec.get("to") or ()
