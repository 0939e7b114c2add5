"""Names like one that does not exist, without loading all that do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches

from celery_parrot.errors import Unreachable
from celery_parrot.protocols import DefinitionStore

_PER_PART = 50
_SHORTEST = 2


def closest_names(name: str, stores: Iterable[DefinitionStore]) -> tuple[str, ...]:
    """Up to three. A slip of the pen leaves one half of a name as it is: its beginnings are looked up in the stores'
    order by name, which costs them next to nothing, and only if that leads nowhere each searches once, for its end."""
    asked = list(stores)
    return _like(name, _beginning(name, asked)) or _like(name, _ending(name, asked))


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


def _ending(name: str, stores: Iterable[DefinitionStore]) -> Iterator[str]:
    """A search may look at all names of a store, so there is one."""
    end = name[len(name) // 2 :] if len(name) >= 2 * _SHORTEST else name
    for store in stores if end else ():
        with suppress(Unreachable):
            yield from store.names_with(end, _PER_PART)


def before(start: str) -> str:
    """A text that sorts before all that begin with ``start``, and after most others."""
    return f"{start[:-1]}{chr(ord(start[-1]) - 1)}\U0010ffff" if start and start[-1] > "!" else start[:-1]


def _starts(name: str) -> list[str]:
    lengths = (len(name), len(name) - 1, len(name) * 3 // 4, len(name) // 2, len(name) // 3)
    return list(dict.fromkeys(name[:length] for length in lengths if length >= min(_SHORTEST, len(name)) and length))
