"""One try of one parcel: each callback in order, then the mail with the result. One that fails stops no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from celery_parrot.delivery import templates
from celery_parrot.delivery.channels import ALERT, RESULT_MAIL, Channel, Spec, channel
from celery_parrot.delivery.failures import NotDelivered, told
from celery_parrot.delivery.means import Letter, Means
from celery_parrot.protocols import About, CallbackReport, DeliveryReport, DeliveryStatus, Parcel

DIED: Final = "the worker that was to deliver it ended before it could say how that went"

MAIL: Final = "mail"
"""What stands in place of an index in the idempotency key of the result mail and of the alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """When what failed is tried again: by default 7, 28, 112 and 448 s later, ten minutes together.

    :ivar tries: how often at most, the first included. ``first``: seconds before the second; each later pause is
        ``factor`` times as long.
    """

    tries: int = 5
    first: float = 7.0
    factor: float = 4.0

    def pause(self, tries: int) -> float | None:
        """Seconds after so many tries until the next, or None: there is none."""
        return None if tries >= self.tries else self.first * self.factor ** (tries - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A parcel and whom it goes to.

    :ivar before: what became of each callback in earlier tries, in order; empty in the first.
    :ivar tries: which try this is, from 1.
    """

    parcel: Parcel
    callbacks: Sequence[Spec] = ()
    send_result: Mapping[str, Any] | None = None
    before: Sequence[CallbackReport] = ()
    tries: int = 1


@dataclass(frozen=True, slots=True)
class _Item:
    index: str
    spec: Spec
    channel: Channel


def deliver(job: Job, means: Means, *, last: bool, died: bool = False) -> DeliveryReport:
    """Deliver what is not delivered yet. Never raises for what a callback does.

    :param last: no further try follows: what fails now has failed.
    :param died: the process that made this try did not live to say how it went. Nothing is sent now: a callback that
        kills its process would do so again at once, for ever.
    """
    names = templates.values(job.parcel)
    reports: list[CallbackReport] = []
    for position, item in enumerate(_items(job)):
        before = job.before[position] if position < len(job.before) else None
        if before is not None and before.status is not DeliveryStatus.RETRYING:
            reports.append(before)
            continue
        key = f"{job.parcel.fire_id}:{job.parcel.about}:{item.index}"
        letter = Letter(parcel=job.parcel, key=key, names=names)
        tries = 1 if before is None else before.tries + 1
        reports.append(_try(item, letter, means, last=last, died=died, tries=tries))
    return DeliveryReport(
        parcel_id=job.parcel.id,
        fire_id=job.parcel.fire_id,
        key=job.parcel.key,
        about=job.parcel.about,
        status=_status([report.status for report in reports]),
        callbacks=tuple(reports),
        tries=job.tries,
    )


def _items(job: Job) -> list[_Item]:
    if job.parcel.about is About.ALERT:
        return [_Item(MAIL, {}, ALERT)]
    items = [_Item(str(index), spec, channel(str(spec.get("type")))) for index, spec in enumerate(job.callbacks)]
    if job.send_result:
        items.append(_Item(MAIL, job.send_result, RESULT_MAIL))
    return items


def _try(item: _Item, letter: Letter, means: Means, *, last: bool, died: bool, tries: int) -> CallbackReport:
    error, again = "", False
    try:
        if died:
            raise NotDelivered(DIED)
        item.channel.send(item.spec, letter, means)
    except Exception as exc:  # whatever a server, a library or the user's own code raises
        final = isinstance(exc, NotDelivered) and exc.final
        error, again = told(exc, _secrets(item, means)), not (final or last)
    status = DeliveryStatus.DELIVERED
    if error:
        status = DeliveryStatus.RETRYING if again else DeliveryStatus.FAILED
    return CallbackReport(callback=_label(item), status=status, error=error, at=means.clock.now(), tries=tries)


def _label(item: _Item) -> str:
    name = item.spec.get("name")
    try:
        return templates.one_line(str(name) if name else item.channel.label(item.spec), 200)
    except Exception:  # of a definition that was written past all checks
        return "callback"


def _secrets(item: _Item, means: Means) -> list[str]:
    known = [means.mail.password] if means.mail is not None and means.mail.password else []
    try:
        return [*known, *item.channel.secrets(item.spec)]
    except Exception:
        return known


def _status(found: Sequence[DeliveryStatus]) -> DeliveryStatus:
    if DeliveryStatus.RETRYING in found:
        return DeliveryStatus.RETRYING
    if DeliveryStatus.FAILED not in found:
        return DeliveryStatus.DELIVERED
    return DeliveryStatus.PARTIAL if DeliveryStatus.DELIVERED in found else DeliveryStatus.FAILED
