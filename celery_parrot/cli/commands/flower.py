"""``flower``: Flower with the pages and the API of this scheduler in it."""

from __future__ import annotations

import click

from celery_parrot.cli.lazy import Verb


@click.command("flower", cls=Verb, context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def flower(ctx: click.Context, options: tuple[str, ...]) -> None:
    """Start Flower with schedules, fires, groups and beats in it.

    Takes Flower's own options, such as --port and --basic_auth; --help lists them. Needs celery-parrot[flower].
    """
    try:
        from flower.command import flower as flowers
        from tornado.options import Error as UnusableOption
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "flower":
            raise
        raise click.ClickException("Flower is not installed. Install it: pip install 'celery-parrot[flower]'") from None
    # After Flower's own modules: these read its options.
    import celery_parrot.flower.plugin  # noqa: F401

    # Beside this group, not in it: Flower asks Celery's command which options are Celery's.
    above = ctx.find_root()
    with flowers.make_context("flower", list(options), parent=above) as own:
        try:
            flowers.invoke(own)
        except UnusableOption as error:
            raise click.UsageError(f"{error}. Flower takes values after a sign of equality: --port=5555.") from None
