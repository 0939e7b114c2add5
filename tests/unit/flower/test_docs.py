"""docs/http.md names every operation, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

from celery_parrot.flower.api.document import ALL

PAGE = Path(__file__).parents[3] / "docs" / "http.md"


def test_every_operation_is_documented() -> None:
    found = re.findall(r"^\| `([A-Z]+) (\S+)`", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(found) == sorted((one.method, one.path) for one in ALL)
