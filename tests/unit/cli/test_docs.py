"""The page of the command line."""

from __future__ import annotations

import re
from pathlib import Path

import click

from celery_parrot.cli import parrot

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text("utf-8")


def test_every_verb_has_an_example() -> None:
    shown = set(re.findall(r"celery -A shop parrot ([a-z-]+)", PAGE))
    assert shown == set(parrot.list_commands(click.Context(parrot)))


def test_every_option_that_is_shown_exists() -> None:
    """An option that was renamed would mislead whoever copies the line."""
    context = click.Context(parrot)
    checked = 0
    for line in re.sub(r"\\\n\s*", "", PAGE).splitlines():
        found = re.match(r"\$ celery -A shop parrot ([a-z-]+)( release)?(.*?)(  +#(.*))?$", line)
        if found is None:
            continue
        verb, sub, rest, _, remark = found.groups()
        command = parrot.get_command(context, verb)
        if sub and isinstance(command, click.Group):
            command = command.get_command(context, "release")
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        for option in re.findall(r"(?<![\w-])--[a-z-]+", rest + (remark or "")):
            assert option in known, (line, option)
            checked += 1
    assert checked > 15
