"""Callbacks that the app brings along: ``@parrot.callback("name")``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from celery_parrot.delivery.failures import NotDelivered
from celery_parrot.delivery.fields import Fields
from celery_parrot.delivery.means import Letter, Means, OwnCallback, specification


def check(fields: Fields, callback: OwnCallback | None) -> None:
    """Whether it can be called with what the specification holds. Raises InvalidSchedule.

    :param callback: None where it is not known here.
    """
    fields.text("name")
    for name in fields.given:
        if name not in ("type", "name") and not str(name).isidentifier():
            fields.refuse(str(name), "must be the name of an argument", hidden=True)
    fields.all_json()
    if callback is None:
        return
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, "", **specification(fields.given))
    except TypeError as exc:
        fields.refuse("type", f"the callback cannot be called so: {exc}")


def label(spec: Mapping[str, Any]) -> str:
    """Its name."""
    return str(spec.get("type"))


def secrets(spec: Mapping[str, Any]) -> list[str]:
    """What it is called with is nobody's business."""
    return [value for value in specification(spec).values() if isinstance(value, str)]


def send(spec: Mapping[str, Any], letter: Letter, means: Means) -> None:
    """Raises whatever the callback raises."""
    callback = means.own.get(str(spec.get("type")))
    if callback is None:
        raise NotDelivered(f"no callback {spec.get('type')!r} is registered on this worker")
    try:
        callback(letter.parcel, letter.key, **specification(spec))
    except SystemExit as exc:
        if type(exc) is not SystemExit:  # Celery's own: the worker has been told to stop
            raise
        # Past this it would end the process, and the delivery come back to the next one at once, without end.
        raise NotDelivered(f"the callback called sys.exit({exc.code!r})") from None
