"""``file``: the story in a file below ``parrot_file_root``, there whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from celery_parrot.clock import new_id
from celery_parrot.delivery import templates
from celery_parrot.delivery.failures import NotDelivered
from celery_parrot.delivery.fields import Fields
from celery_parrot.delivery.means import Letter, Means

_NAME_BYTES: Final = 200
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\]+")
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def check(fields: Fields) -> None:
    """Raises InvalidSchedule."""
    fields.only("type", "name", "path", "content")
    fields.text("name")
    path = fields.template("path", required=True)
    assert path is not None
    if reason := _fault(path):
        fields.refuse("path", reason)
    fields.template("content")


def label(spec: Mapping[str, Any]) -> str:
    """Where to, as it was written."""
    return f"file {templates.one_line(str(spec.get('path') or ''), 100)}"


def secrets(spec: Mapping[str, Any]) -> list[str]:
    """None."""
    return []


def send(spec: Mapping[str, Any], letter: Letter, means: Means) -> None:
    """Raises NotDelivered, OSError."""
    if means.file_root is None:
        raise NotDelivered("parrot_file_root is not set on this worker")
    parts = parts_of(str(spec["path"]), letter.names)
    content = spec.get("content")
    if content is None:
        text = json.dumps(letter.parcel.to_json(), ensure_ascii=False, indent=2) + "\n"
    else:
        text = templates.render(str(content), letter.names)
    write(means.file_root, parts, text.encode("utf-8", "replace"))


def parts_of(path: str, names: Mapping[str, str]) -> list[str]:
    """The directories and the name of the file. A value never makes a directory, nor leads out of one.

    :raises NotDelivered: for a path that leads nowhere below the root.
    """
    if reason := _fault(path):
        raise NotDelivered(f"path {reason}", final=True)
    safe = {name: _UNSAFE.sub("_", value) for name, value in names.items()}
    return [_safe(templates.render(part, safe)) for part in path.split("/")]


def write(root: Path, parts: list[str], content: bytes) -> None:
    """Put a file below ``root``, replacing one of that name at once. No step follows a symbolic link.

    :raises NotDelivered: if a directory on the way is none, or a link. OSError: as the system says.
    """
    try:
        directory = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError as exc:
        raise NotDelivered(f"parrot_file_root cannot be opened: {exc.strerror}") from None
    try:
        for part in parts[:-1]:
            directory = _enter(directory, part)
        _put(directory, parts[-1], content)
    finally:
        os.close(directory)


def _enter(directory: int, part: str) -> int:
    """The directory below, made if need be; the one above is closed."""
    with suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=directory)
    try:
        below = os.open(part, _DIRECTORY, dir_fd=directory)
    except OSError as exc:
        raise NotDelivered(f"{part} is no directory that may be entered: {exc.strerror}") from None
    os.close(directory)
    return below


def _put(directory: int, name: str, content: bytes) -> None:
    temporary = f".parrot-{new_id()}"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=directory)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # Over a link this replaces the link itself.
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _fault(path: str) -> str:
    if "\\" in path or "\0" in path:
        return "must not contain a backslash or a NUL character"
    parts = path.split("/")
    if path.startswith("/") or not path.strip():
        return "must be a path below parrot_file_root, such as reports/$name.json"
    if any(part.strip() in ("", ".", "..") for part in parts):
        return "must not contain .. or . or an empty part"
    return ""


def _safe(part: str) -> str:
    """A name that is a name: short enough, not hidden, never ``..``."""
    name = _UNSAFE.sub("_", part).encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore").strip()
    return f"_{name}" if not name or name.startswith(".") else name
