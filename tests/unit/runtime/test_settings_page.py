"""docs/settings.md: every setting that there is, no other, and the defaults as they are."""

from __future__ import annotations

import re
from pathlib import Path

from celery_parrot.runtime.conf_kinds import KEYS
from celery_parrot.runtime.conf_source import ENVIRONMENT
from celery_parrot.runtime.config import KNOWN, NOT_YET, Settings

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "settings.md").read_text()
DATABASE = re.findall(r"^\| `(parrot_database_\w+)`", (DOCS / "schedules.md").read_text(), re.MULTILINE)


def test_every_setting_is_on_the_page_and_no_other() -> None:
    """Those of the database stand with the stores."""
    named = set(re.findall(r"`(parrot_[a-z_]+)[`\s]", PAGE))
    assert named | set(DATABASE) == KNOWN


def test_what_has_no_effect_is_said_to_have_none() -> None:
    """As a beat says at its start."""
    unused = PAGE.rpartition("as unused:")[2]
    assert set(re.findall(r"`(parrot_\w+)`", unused)) == NOT_YET


def test_every_key_of_a_kind_is_on_the_page() -> None:
    assert {key for key in KEYS if f"`{key}`" in PAGE} == set(KEYS)


def test_the_defaults_are_those_of_the_code() -> None:
    """Where a row gives one number or one word for one setting."""
    rows = re.findall(r"^\| `parrot_(\w+)` \| `?([\w.]+)`? \|", PAGE, re.MULTILINE)
    assert len(rows) >= 10
    settings = Settings()
    for name, default in rows:
        assert f"{getattr(settings, name)}".removesuffix(".0") == default, name


def test_the_environment_names_are_real() -> None:
    named = set(re.findall(r"`(SCHEDULER_\w+)`", PAGE))
    assert named
    assert named <= set(ENVIRONMENT.values())
