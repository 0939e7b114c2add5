"""``export``: schedules as YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from celery_parrot.cli.output import verb
from celery_parrot.errors import printable

if TYPE_CHECKING:
    from celery_parrot.client import Schedules, ScheduleView

_PAGE = 500


@verb("export")
@click.option("--store", type=click.Choice(["code", "db", "redis"]), help="Only schedules of this store.")
@click.option("--kind", help="Only schedules of this kind.")
@click.option("--output", type=click.Path(dir_okay=False, writable=True), help="Write a file.  [default: stdout]")
@click.pass_context
def export(ctx: click.Context, store: str | None, kind: str | None, output: str | None, as_json: bool) -> None:
    """Write schedules as YAML that apply reads.

    Those of the code are left out unless --store asks for them: they are changed in the code. Run state and pauses are
    no part of it; which are paused is told on stderr. Exit code 1 if a schedule is left out because it cannot be read.
    """
    from celery_parrot.cli.documents import write
    from celery_parrot.cli.source import opened

    unread: list[str] = []
    held: list[str] = []
    with opened(ctx) as source:
        source.must_be_shared()
        documents = list(_documents(source.schedules, store, kind, unread, held))
    with click.open_file(output or "-", "w", encoding="utf-8", atomic=output is not None) as file:
        if as_json:
            import json

            file.write(json.dumps(documents, indent=2, ensure_ascii=False) + "\n")
        else:
            for piece in write(documents):
                file.write(piece + "\n")
    for sentence in unread:
        click.echo(printable(f"Left out: {sentence}"), err=True)
    if held:
        names = printable(", ".join(held))
        click.echo(
            f"Paused or disabled here, which is no part of it: {names}. Created elsewhere they would run, "
            "unless they say enabled: false.",
            err=True,
        )
    if output is not None:
        click.echo(f"{len(documents)} schedules are in {output}.", err=True)
    ctx.exit(1 if unread else 0)


def _documents(
    client: Schedules, store: str | None, kind: str | None, unread: list[str], held: list[str]
) -> Iterator[Mapping[str, Any]]:
    from celery_parrot.client import document_of

    stores = [name for name in client.stores if name != "code"] if store is None else [store]
    for name in stores:
        for view in _views(client, name, kind):
            if view.schedule_type:
                if view.enabled and view.state.value in ("paused", "disabled"):
                    held.append(view.name)
                yield document_of(view)
            else:
                unread.append(f"{view.name} ({name} store): {view.broken_reason}")


def _views(client: Schedules, store: str, kind: str | None) -> Iterator[ScheduleView]:
    after = ""
    while True:
        page = client.find(store=store, kind=kind, after=after, limit=_PAGE)
        yield from page
        after = page.after
        if not after:
            return
