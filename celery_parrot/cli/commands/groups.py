"""``groups``: who holds what may not run together, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from celery_parrot.cli.asking import confirmed, who, yes_option
from celery_parrot.cli.lazy import LazyGroup, Verb
from celery_parrot.cli.output import distance, json_option, seconds, show, show_json, verb

if TYPE_CHECKING:
    from celery_parrot.client import Group, InLine


class _Groups(LazyGroup, Verb):
    """Shows them when no further word follows."""


@click.group(
    "groups",
    cls=_Groups,
    lazy={"release": "celery_parrot.cli.commands.groups:release"},
    invoke_without_command=True,
)
@json_option
@click.pass_context
def groups(ctx: click.Context, as_json: bool) -> None:
    """Show who holds each group, since when, and the line behind it.

    Beside exclusion groups these are the limits of kinds (kind:NAME), of schedules that must not overlap
    (schedule:ID), and slots. Only what somebody holds or waits for is shown.
    """
    if ctx.invoked_subcommand is not None:
        return
    from celery_parrot.cli.source import opened

    with opened(ctx) as source:
        source.must_be_shared()
        found = source.schedules.groups()
        now = source.coordination.now() if found and not as_json else None
    if as_json:
        show_json(found)
        return
    show(
        ["group", "room", "state", "schedule", "kind", "since", "gives up", "worker", "fire"],
        [row for group in found for row in _rows(group, now)],
        empty="Nobody holds or waits for anything.",
    )


def _rows(group: Group, now: datetime | None) -> Iterable[tuple[object, ...]]:
    room = f"{len(group.holders)}/{group.capacity}"
    for one in group.holders:
        yield (group.name, room, f"holds, {one.state}", *_who(one, now))
    for place, one in enumerate(group.waiting, 1):
        yield (group.name, "", f"waits, no. {place}", *_who(one, now))


def _who(one: InLine, now: datetime | None) -> tuple[Any, ...]:
    since = "" if one.since is None or now is None else seconds((now - one.since).total_seconds())
    until = "" if now is None else distance(one.until, now)
    return (one.name, one.kind, since, until, one.worker, one.fire_id)


@verb("release")
@click.argument("group")
@click.option("--fire", metavar="ID", help="Which fire, where several hold it; groups shows the ids.")
@click.option("--by", help="Who does this.  [default: the user of this shell]")
@yes_option
@click.pass_context
def release(ctx: click.Context, group: str, fire: str | None, by: str | None, yes: bool, as_json: bool) -> None:
    """End the fire that holds GROUP, so that the next in line can start.

    It is recorded as abandoned, with your name as the reason, and does not count as a failure. A task that is really
    still running is not stopped: it finds that its lease is gone, and may run beside its successor.
    """
    from celery_parrot.cli.source import opened

    with opened(ctx) as source:
        source.must_be_shared()
        client = source.schedules
        held = client.group_holder(group, fire)
        running = f"running on {held.worker}" if held.state == "running" else held.state
        confirmed(f"End the fire {held.fire_id} of {held.name}, {running}?", yes)
        # That very fire: another may hold it by now.
        ended = client.release_group(group, held.fire_id, actor=who(by))
    if as_json:
        show_json(ended)
    else:
        click.echo(f"{ended.name} ({ended.fire_id}) is abandoned and holds {group} no longer.")
