"""What is found in a source, one value an entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from celery_parrot.errors import ParrotError


class CannotMap(ParrotError):
    """One entry of a source that has no counterpart here; the others go on.

    :ivar reason: what is in the way. :ivar fix: what a person can do, as an imperative sentence.
    """

    def __init__(self, reason: str, fix: str) -> None:
        self.reason, self.fix = reason, fix
        super().__init__(f"{reason}. {fix}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry of a source.

    :ivar source_name: what it is called there.
    :ivar fields: of the schedule to create, as the client takes them, without ``store``; None if it cannot be mapped.
    :ivar store: where it must go, whatever was asked for; None: as asked.
    :ivar schedule_id: the id that it keeps; None: a new one.
    :ivar paused: why it arrives paused; None: it does not.
    :ivar reason: of one that cannot be mapped. :ivar fix: what to do about it.
    :ivar notes: what else there is to know, about this entry.
    :ivar faults: known faults of the source that touch it: its due times there and here differ by them.
    :ivar past: columns of run state that it brings along, where the store is SQL.
    """

    source_name: str
    fields: Mapping[str, Any] | None = None
    store: str | None = None
    schedule_id: str | None = None
    paused: str | None = None
    reason: str = ""
    fix: str = ""
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    past: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A whole source.

    :ivar where: for a sentence; no password. :ivar aside: what was seen and is no schedule, one line each.
    """

    where: str
    items: tuple[Item, ...]
    aside: tuple[str, ...] = ()


def guarded(source_name: str, make: Callable[[], Item]) -> Item:
    """The item of one entry. One that has no counterpart, or is not what its scheduler writes, is told and harms no
    other."""
    try:
        return make()
    except CannotMap as error:
        return Item(source_name=source_name, reason=error.reason, fix=error.fix)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        told = f"it is not what its scheduler writes ({type(error).__name__}: {error})"
        return Item(source_name=source_name, reason=told, fix="Correct it in the source, or create it by hand")
