"""``file``: below its root, whole or not at all, whatever stands in a name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from celery_parrot.delivery import NotDelivered, files
from tests.unit.delivery.stories import letter, means, parcel


def send(root: Path | None, path: str, **changes: Any) -> None:
    content = changes.pop("content", None)
    files.send({"path": path, "content": content}, letter(parcel(**changes)), means(file_root=root))


def test_the_story_is_written_below_the_root(tmp_path: Path) -> None:
    """As JSON, or as the template says; a second delivery replaces it, and nothing else is left there."""
    for _ in range(2):
        send(tmp_path, "reports/$name/$status.json", output="é😀")
    written = tmp_path / "reports" / "nightly" / "success.json"
    assert json.loads(written.read_text())["output"] == "é😀"
    assert os.listdir(written.parent) == ["success.json"]
    send(tmp_path, "plain.txt", content="$name: $output")
    assert (tmp_path / "plain.txt").read_text() == "nightly: 42 rows"


@pytest.mark.parametrize("name", ["../../evil", "/etc/x", "a/b", "..", ".", "", ".hidden", "a\0b\n", "x" * 5000, "\\"])
def test_a_value_is_one_harmless_name(tmp_path: Path, name: str) -> None:
    """It makes no directory and leads nowhere."""
    send(tmp_path, "$name", name=name)
    send(tmp_path, "d/$name", name=name)
    (one,) = (each for each in tmp_path.iterdir() if each.name != "d")
    assert one.is_file()
    (two,) = (tmp_path / "d").iterdir()
    assert two.name == one.name
    assert not one.name.startswith(".")


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Neither a directory on the way nor the file itself."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "target").write_text("precious")
    (root / "way").symlink_to(outside)
    (root / "file").symlink_to(outside / "target")
    with pytest.raises(NotDelivered, match="way is no directory that may be entered"):
        send(root, "way/x")
    send(root, "file", content="new")
    assert (outside / "target").read_text() == "precious"
    assert (root / "file").read_text() == "new"
    assert os.listdir(outside) == ["target"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Neither half a file nor a temporary one, nor an open descriptor."""
    (tmp_path / "d" / "taken").mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(OSError, match="directory"):
        send(tmp_path, "d/taken")
    assert os.listdir(tmp_path / "d") == ["taken"]
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../x", "a//x", ""])
def test_a_path_that_was_written_past_the_checks_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotDelivered) as caught:
        send(tmp_path, path)
    assert caught.value.final


def test_without_a_root_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(NotDelivered, match="parrot_file_root is not set"):
        send(None, "x")
    with pytest.raises(NotDelivered, match="parrot_file_root cannot be opened"):
        send(tmp_path / "none", "x")
