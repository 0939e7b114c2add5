"""The two entry points: what they load, how they fail."""

from __future__ import annotations

import errno
import subprocess
import sys
from importlib.metadata import entry_points

import click
import pytest
from click.testing import CliRunner

from celery_parrot.__about__ import __version__
from celery_parrot.cli import parrot
from celery_parrot.cli.lazy import LazyGroup, Verb, closest, in_a_sentence
from celery_parrot.cli.main import main
from celery_parrot.errors import Unreachable

HEAVY = {"redis", "sqlalchemy", "croniter", "celery", "kombu", "rich", "flower", "tornado", "dateutil"}


def loaded_by(code: str) -> set[str]:
    """Top-level names of all modules that a fresh interpreter imports for ``code``."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in lines}


def test_celery_pays_next_to_nothing_for_our_command() -> None:
    """It is imported on every call of ``celery``, worker and beat included."""
    loaded = loaded_by("import celery_parrot.cli")
    assert "click" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["--version"]])
def test_help_of_the_console_script_loads_nothing_heavy(arguments: list[str]) -> None:
    """Help is there at once."""
    code = f"from celery_parrot.cli.main import main; main({arguments!r}, standalone_mode=False)"
    assert loaded_by(code) & HEAVY == set()


def test_help_of_the_verbs_loads_nothing_heavy() -> None:
    """All verbs are imported for it; none of them drags its libraries along."""
    code = "from celery_parrot.cli import parrot; parrot(['--help'], standalone_mode=False)"
    assert loaded_by(code) & HEAVY == set()


def test_both_are_installed() -> None:
    """As pyproject.toml promises."""
    (script,) = entry_points(group="console_scripts", name="celery-parrot")
    (command,) = entry_points(group="celery.commands", name="parrot")
    assert script.load() is main
    assert command.load() is parrot


def test_the_version_is_the_packages_own() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"celery-parrot, version {__version__}\n"


def test_every_verb_can_be_loaded_and_helps() -> None:
    """No name in the table leads nowhere."""
    groups: list[click.Group] = [parrot, main]
    for group in groups:  # grows by the groups within
        context = click.Context(group)
        for name in group.list_commands(context):
            result = CliRunner().invoke(group, [name, "--help"])
            assert result.exit_code == 0, result.output
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                groups.append(command)
            elif name != "flower":  # a server: it prints nothing
                assert "--json" in result.output


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("helth", "There is no command 'helth'. Did you mean health?"),
        ("BEATS", "Did you mean beats?"),
        ("xyzzy", "There is no command 'xyzzy'."),
    ],
)
def test_a_typo_is_answered_with_the_closest_names(typed: str, says: str) -> None:
    result = CliRunner().invoke(parrot, [typed])
    assert result.exit_code == 2
    assert says in result.output


def test_closest_names_of_schedules() -> None:
    assert closest("sync-stok", ["sync-stock", "sync-stick", "report"]) == "Did you mean sync-stock or sync-stick?"
    assert closest("zzz", ["report"]) == "There is report."
    assert closest("zzz", []) == ""
    assert closest("zzz", [f"schedule-{i}" for i in range(50)]) == ""


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (Unreachable("nobody\n  answers"), "Error: nobody answers."),
        (ValueError("bad"), "Error: ValueError: bad."),
        (KeyError(), "Error: KeyError."),
    ],
)
def test_a_failure_is_one_sentence(error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And exit code 1, no traceback, unless one is asked for."""

    def fail() -> None:
        raise error

    command = Verb("fail", callback=fail)
    result = CliRunner().invoke(command)
    assert (result.exit_code, result.output.strip()) == (1, sentence)
    assert in_a_sentence(error) == sentence.removeprefix("Error: ")
    monkeypatch.setenv("PARROT_TRACEBACK", "1")
    assert CliRunner().invoke(command).exception is error


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    """As in ``parrot list | head``: click ends without a word."""

    def fail() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    result = CliRunner().invoke(Verb("fail", callback=fail))
    assert (result.exit_code, result.output) == (1, "")


def test_commands_that_are_not_lazy_work_too() -> None:
    """A lazy group is a group."""
    group = LazyGroup("g", lazy={}, commands={"own": click.Command("own", callback=lambda: click.echo("ran"))})
    assert CliRunner().invoke(group, ["own"]).output == "ran\n"
