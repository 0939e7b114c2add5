"""Commands that are imported when they are called, and failures that are one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands stand in modules of their own.

    :param lazy: command name → ``module:attribute``, in the order that ``--help`` shows.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the closest names for one that does not exist."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"There is no command {args[0]!r}. {closest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


class Verb(click.Command):
    """A command that fails with one sentence and exit code 1, never with a traceback.

    ``PARROT_TRACEBACK=1`` shows the traceback after all, for a report to the developers.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:  # who reads has seen enough, as `head`: click ends without a word
            raise
        except Exception as error:
            if os.environ.get("PARROT_TRACEBACK"):
                raise
            raise click.ClickException(in_a_sentence(error)) from None


def in_a_sentence(error: BaseException) -> str:
    """What went wrong, for a person: our own errors speak for themselves, others are named."""
    # Imported here: whoever only asks for --help should not pay for it.
    from celery_parrot.errors import ParrotError

    text = " ".join(str(error).split())
    if not isinstance(error, ParrotError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."


def closest(name: str, names: Iterable[str]) -> str:
    """A sentence with the names most like ``name``, or with all of them where none is and they are few."""
    from difflib import get_close_matches

    known = list(names)
    folded = {each.lower(): each for each in known}
    matches = get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    similar = [folded[match] for match in matches[: 1 if name.lower() in folded else 3]]
    if similar:
        return f"Did you mean {or_list(similar)}?"
    if 0 < len(known) <= 12:
        return f"There {'is' if len(known) == 1 else 'are'} {', '.join(known)}."
    return ""


def or_list(names: list[str]) -> str:
    """``a, b or c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
