"""The lines that docs/database.md gives for an ``alembic.ini``, taken at their word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from celery_parrot.stores.sql import head

PAGE = Path(__file__).parents[3] / "docs" / "database.md"


def test_alembic_finds_our_revisions_beside_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the project's folder, as Alembic is run."""
    block = re.search(r"```ini\n(.+?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    lines = f"[alembic]\nscript_location = migrations\n{block[1]}"
    if not hasattr(Config, "get_version_locations_list"):  # path_separator has its name since Alembic 1.16
        lines = lines.replace("path_separator", "version_path_separator")
    (tmp_path / "alembic.ini").write_text(lines)
    (tmp_path / "migrations" / "versions").mkdir(parents=True)
    (tmp_path / "migrations" / "versions" / "a.py").write_text("revision = 'theirs'\ndown_revision = None\n")
    monkeypatch.chdir(tmp_path)
    config = Config("alembic.ini")
    assert set(ScriptDirectory.from_config(config).get_heads()) == {"theirs", head()}
    assert config.get_main_option("parrot_schema") == "navigator"
