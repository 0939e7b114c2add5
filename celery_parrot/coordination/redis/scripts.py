"""The Lua scripts of this package: prelude and shared functions put before each operation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

_SHARED = ("prelude.lua", "fires.lua")


@dataclass(frozen=True, slots=True)
class Script:
    """:ivar sha: what the server calls it once it has seen :attr:`text`."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script of one operation, e.g. ``commit``."""
    folder = resources.files(__package__).joinpath("lua")
    parts = [folder.joinpath(part).read_text("utf-8") for part in (*_SHARED, f"{name}.lua")]
    text = "\n".join(parts)
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
