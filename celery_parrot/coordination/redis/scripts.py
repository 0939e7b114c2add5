"""The Lua scripts of this package: prelude and shared functions put before each operation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

_SHARED = (
    *("faults.lua", "prelude.lua", "fires.lua", "telling.lua", "records.lua", "jobs.lua", "outcomes.lua"),
    *("lines.lua", "turns.lua", "owners.lua"),
)
_PARTS = {"reap": ("tend.lua",), "parcels": ("takers.lua",), "take_parcels": ("takers.lua",)}
"""What one operation needs besides."""


@dataclass(frozen=True, slots=True)
class Script:
    """:ivar sha: what the server calls it once it has seen :attr:`text`."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script of one operation, e.g. ``commit``."""
    parts = (*_PARTS.get(name, ()), f"{name}.lua")
    return _script(name, "\n".join(_read(part) for part in parts))


@cache
def extended(name: str, body: str) -> Script:
    """The script of another room: the same prelude and shared functions, then ``body``."""
    return _script(name, body)


def _script(name: str, body: str) -> Script:
    text = "\n".join((*(_read(part) for part in _SHARED), body))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(name: str) -> str:
    return resources.files(__package__).joinpath("lua", name).read_text("utf-8")
