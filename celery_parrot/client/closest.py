"""Names like one that does not exist, without loading all that do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from celery_parrot.errors import Unreachable
from celery_parrot.protocols import DefinitionStore

_PER_PART = 50
_SHORTEST = 2


def closest_names(name: str, stores: Iterable[DefinitionStore]) -> tuple[str, ...]:
    """Up to three. A slip of the pen leaves most of a name as it is: its parts are what the stores are asked for."""
    found: dict[str, None] = {}
    for store in stores:
        for part in _parts(name):
            try:
                page = store.find(text=part, limit=_PER_PART)
            except Unreachable:
                break
            found.update(dict.fromkeys(stored.name for stored in page.items))
    folded = {each.lower(): each for each in found}
    return tuple(folded[match] for match in get_close_matches(name.lower(), folded, n=3, cutoff=0.6))


def _parts(name: str) -> list[str]:
    third = max(len(name) // 3, _SHORTEST)
    middle = max((len(name) - third) // 2, 0)
    parts = (name, name[:third], name[middle : middle + third], name[-third:])
    return list(dict.fromkeys(part for part in parts if len(part) >= min(_SHORTEST, len(name)) and part))
