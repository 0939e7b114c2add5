"""Many schedules at once, as files hold them."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from celery_parrot.client import Action, document_of, step_fields, without_secrets
from celery_parrot.flower.api.operations import Ask, Reply
from celery_parrot.flower.api.refusals import invalid
from celery_parrot.flower.api.schedules import refuse_masks

CODE: Final = "code"


def export(ask: Ask) -> Reply:
    """A page at a time. Those of the code only where their store is asked for, as on the command line."""
    client, given = ask.client, dict(ask.given)
    page = client.find(**given)
    wanted = [view for view in page if view.store != CODE or given.get("store") == CODE]
    documents = [
        {name: without_secrets(name, value) for name, value in document_of(view).items()}
        for view in wanted
        if view.schedule_type
    ]
    unread = [
        {"name": view.name, "store": view.store, "reason": view.broken_reason}
        for view in wanted
        if not view.schedule_type
    ]
    return Reply(body={"schedules": documents, "left_out": unread, "after": page.after, "next": page.after})


def apply(ask: Ask) -> Reply:
    """Compare, and unless it is a dry run, write what differs."""
    client, body = ask.client, ask.body
    prune, dry_run = bool(body.get("prune", False)), bool(body.get("dry_run", True))
    documents: list[Any] = body["schedules"]
    for name in ("store", "kind"):
        if name in body and not prune:
            raise invalid(name, body[name], "says what prune may delete; without it it does nothing")
    for document in documents:
        refuse_masks(document)
    steps = client.compare(documents, prune=prune, store=body.get("store"), kind=body.get("kind"))
    if not dry_run:
        steps = [client.carry_out(step) for step in steps]
    counts = Counter(step.action.value for step in steps)
    return Reply(
        body={
            "steps": [step_fields(step, without_secrets) for step in steps],
            "counts": {action.value: counts[action.value] for action in Action},
            "dry_run": dry_run,
        }
    )
