"""Names like one that does not exist, without loading all that do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from celery_parrot.errors import Unreachable
from celery_parrot.protocols import DefinitionStore

_PER_PART = 50
_SHORTEST = 2


def closest_names(name: str, stores: Iterable[DefinitionStore]) -> tuple[str, ...]:
    """Up to three. A slip of the pen leaves most of a name as it is: its beginnings are looked up in the stores' order
    by name, which costs them next to nothing, and only if that leads nowhere they search for its parts."""
    asked = list(stores)
    return _like(name, _beginning(name, asked)) or _like(name, _containing(name, asked))


def _like(name: str, found: Iterable[str]) -> tuple[str, ...]:
    folded = {each.lower(): each for each in found}
    return tuple(folded[match] for match in get_close_matches(name.lower(), folded, n=3, cutoff=0.6))


def _beginning(name: str, stores: Iterable[DefinitionStore]) -> Iterator[str]:
    for store in stores:
        for start in _starts(name):
            try:
                page = store.find(after=before(start), limit=_PER_PART)
            except Unreachable:
                break
            yield from (stored.name for stored in page.items if stored.name.startswith(start))


def _containing(name: str, stores: Iterable[DefinitionStore]) -> Iterator[str]:
    for store in stores:
        for part in _parts(name):
            try:
                page = store.find(text=part, limit=_PER_PART)
            except Unreachable:
                break
            yield from (stored.name for stored in page.items)


def before(start: str) -> str:
    """A text that sorts before all that begin with ``start``, and after most others."""
    return f"{start[:-1]}{chr(ord(start[-1]) - 1)}\U0010ffff" if start and start[-1] > "!" else start[:-1]


def _starts(name: str) -> list[str]:
    lengths = (len(name), len(name) - 1, len(name) * 3 // 4, len(name) // 2, len(name) // 3)
    return list(dict.fromkeys(name[:length] for length in lengths if length >= min(_SHORTEST, len(name)) and length))


def _parts(name: str) -> list[str]:
    third = max(len(name) // 3, _SHORTEST)
    middle = max((len(name) - third) // 2, 0)
    parts = (name, name[:third], name[middle : middle + third], name[-third:])
    return list(dict.fromkeys(part for part in parts if len(part) >= min(_SHORTEST, len(name)) and part))
