"""``apply FILE``: make the schedules what a file says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from celery_parrot.cli.asking import confirmed, yes_option
from celery_parrot.cli.output import show_json, verb
from celery_parrot.errors import printable

if TYPE_CHECKING:
    from celery_parrot.client import Schedules, Step

_SIGNS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red"), "refused": ("!", "red")}
_WORDS = {"create": "new", "update": "changed", "delete": "deleted", "unchanged": "as they are", "refused": "refused"}
_CUT = 100


@verb("apply")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--prune", is_flag=True, help="Delete the schedules that FILE does not name; asks first.")
@click.option("--store", type=click.Choice(["db", "redis"]), help="With --prune: only those of this store.")
@click.option("--kind", help="With --prune: only those of this kind.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@yes_option
@click.pass_context
def apply(
    ctx: click.Context,
    file: Any,
    prune: bool,
    store: str | None,
    kind: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make the schedules what FILE says, YAML or JSON as export writes it; - is standard input.

    Shows what differs, and writes only that: + new, ~ changed, - deleted, ! refused. A field that FILE leaves out has
    its default. Where a schedule in FILE says its version and another is current, or somebody changes it meanwhile, it
    is refused. One that is refused does not keep the others from being written; the exit code is then 1.
    """
    from celery_parrot.cli.documents import read_file
    from celery_parrot.cli.source import opened
    from celery_parrot.client import step_fields

    if (store or kind) and not prune:
        raise click.UsageError("--store and --kind say what --prune may delete; without it they do nothing.")
    documents, _ = read_file(file)
    with opened(ctx) as source:
        source.must_be_shared()
        source.said()
        client = source.schedules
        steps = client.compare(documents, prune=prune, store=store, kind=kind)
        for step in () if as_json else steps:
            _show(step)
        if not dry_run:
            doomed = sum(step.action.value == "delete" for step in steps)
            if doomed:
                confirmed(f"Delete {doomed} {'schedule' if doomed == 1 else 'schedules'}?", yes)
            steps = _carried_out(client, steps, quiet=as_json)
    refused = [step for step in steps if step.action.value == "refused"]
    if as_json:
        show_json([step_fields(step) for step in steps])
    else:
        click.echo(_summary(steps, dry_run))
    ctx.exit(1 if refused else 0)


def _carried_out(client: Schedules, steps: Sequence[Step], quiet: bool) -> list[Step]:
    done: list[Step] = []
    for step in steps:
        after = client.carry_out(step)
        if after.action is not step.action and not quiet:
            _show(after)
        done.append(after)
    return done


def _show(step: Step) -> None:
    from celery_parrot.client import without_secrets

    if step.action.value == "unchanged":
        return
    sign, colour = _SIGNS[step.action.value]
    refused = f": {step.error}" if step.error else ""
    store = f" ({step.store})" if step.store else ""
    click.echo(click.style(printable(f"{sign} {step.name}{store}{refused}"), fg=colour))
    for name, (before, after) in step.changes.items():
        old, new = (_brief(without_secrets(name, value)) for value in (before, after))
        if old == new and before != after:
            new += " (what is not shown here changes)"
        value = new if step.action.value == "create" else f"{old} -> {new}"
        click.echo(printable(f"    {name}: {value}"))


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _CUT else f"{text[: _CUT - 1]}…"


def _summary(steps: Iterable[Step], dry_run: bool) -> str:
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.action.value] = counts.get(step.action.value, 0) + 1
    said = ", ".join(f"{counts[action]} {word}" for action, word in _WORDS.items() if action in counts)
    return f"{said or 'no schedules'}{'; nothing was written' if dry_run else ''}."
