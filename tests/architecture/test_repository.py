"""What the repository as a whole must keep to."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: Somebody's home, a build machine, a package index of one workplace: none of it belongs in what we publish.
LOCAL = re.compile(
    r"(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/|https?://[^\s/]*(?:pypi|registry|mirror)[^\s/]*/simple"
)


def tracked_files() -> list[Path]:
    """Every file under version control; none outside a clone."""
    result = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in result.stdout.split("\0") if name]


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    """Paths and indexes of the machine it was written on would break or mislead everywhere else."""
    guilty: list[str] = []
    for path in tracked_files():
        if not path.is_file() or path == Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        guilty += [f"{path.relative_to(ROOT)}: {match.group()}" for match in LOCAL.finditer(text)]
    assert guilty == []


def test_versions_are_lower_bounds_only() -> None:
    """A library that pins or caps breaks its users' upgrades."""
    groups = {"dependencies": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    guilty = [
        f"{group}: {requirement}"
        for group, requirements in groups.items()
        for requirement in requirements
        if re.search(r"==|~=|<|!=", requirement.partition(";")[0])
    ]
    assert guilty == []


@pytest.mark.parametrize(
    "extra", ["db", "postgresql", "mysql", "flower", "embedded", "metrics", "notify", "solar", "demo"]
)
def test_all_brings_every_extra(extra: str) -> None:
    """``celery-parrot[all]`` means it."""
    (requirement,) = PROJECT["optional-dependencies"]["all"]
    names = requirement.partition("[")[2].rstrip("]").split(",")
    implied = {"db"}  # by postgresql
    assert extra in names or extra in implied


def test_the_licence_is_the_whole_text() -> None:
    """Apache-2.0, as pyproject.toml says."""
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    """Keep a Changelog: an Unreleased section first."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_every_link_between_our_pages_leads_somewhere() -> None:
    """README, CONTRIBUTING, ARCHITECTURE and docs refer to files that exist."""
    guilty: list[str] = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                guilty.append(f"{page.relative_to(ROOT)} -> {target}")
    assert guilty == []
