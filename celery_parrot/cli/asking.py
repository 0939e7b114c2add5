"""What a person is asked, and who that is."""

from __future__ import annotations

import sys

import click

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirmed(question: str, yes: bool) -> None:
    """Ask, unless ``yes``. Raises ClickException if the answer is no, or there is nobody to ask."""
    if yes:
        return
    if not _on_a_terminal():
        raise click.ClickException(
            f"Nothing was changed: nobody can be asked here. To do it without asking, say --yes. ({question})"
        )
    if not click.confirm(question, err=True):
        raise click.ClickException("Nothing was changed.")


def _on_a_terminal() -> bool:
    return sys.stdin.isatty()


def who(by: str | None) -> str:
    """Whoever ``--by`` names, else the user of the operating system; empty if even that is unknown."""
    if by is not None:
        return by
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container with a number for a user
        return ""
