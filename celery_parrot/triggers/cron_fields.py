"""The grammar of one cron field.

Ours from end to end: croniter's plain fields accept what must be refused, wrapping numbers, steps past the range and
random values (``docs/decisions``). Sources: crontab(5) of Debian, Quartz for ``L``, ``W`` and
``#``, Jenkins for ``H``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from celery_parrot.errors import InvalidSchedule

from .spread import draw

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_IN_FULL = re.compile(
    r"\b(?:(feb)ruary|(jan)uary|(mar)ch|(apr)il|(jun)e|(jul)y|(aug)ust|(sep)tember|(oct)ober|(nov|dec)ember"
    r"|(sun|mon|fri)day|(tue)sday|(wed)nesday|(thu)rsday|(sat)urday)(?=\b|l\b)"
)

_AROUND = re.compile(r" ?([-,/]) ?")


class Kind(NamedTuple):
    """One of the fields of a cron expression.

    :ivar names: names of the values, the first standing for ``low``.
    :ivar hashed: the greatest value that ``H`` picks (28 for days, so that every month has it).
    """

    name: str
    low: int
    high: int
    names: tuple[str, ...]
    hashed: int


SECOND = Kind("second", 0, 59, (), 59)
MINUTE = Kind("minute", 0, 59, (), 59)
HOUR = Kind("hour", 0, 23, (), 23)
DAY_OF_MONTH = Kind("day_of_month", 1, 31, (), 28)
MONTH_OF_YEAR = Kind("month_of_year", 1, 12, MONTHS, 12)
DAY_OF_WEEK = Kind("day_of_week", 0, 7, WEEKDAYS, 6)
KINDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH_OF_YEAR, DAY_OF_WEEK)


@dataclass(slots=True)
class Field:
    """What a field names.

    :ivar mask: bit n for each plain value n; Sunday is bit 0.
    :ivar star: whether the text starts with ``*``.
    :ivar hashed: whether ``H`` occurs.
    :ivar last: ``L``; ``last_weekday``: ``LW``; ``nearest``: the n of each ``nW``.
    :ivar last_of: bit n for each weekday n of ``nL``; ``nth``: pairs (weekday, n) of ``weekday#n``.
    """

    mask: int = 0
    star: bool = False
    hashed: bool = False
    last: bool = False
    last_weekday: bool = False
    nearest: tuple[int, ...] = ()
    last_of: int = 0
    nth: tuple[tuple[int, int], ...] = ()

    @property
    def plain(self) -> bool:
        """Whether there is nothing but values: no ``L``, ``W`` or ``#``."""
        return not (self.last or self.last_weekday or self.nearest or self.last_of or self.nth)


def shorten(text: str) -> str:
    """``text``, in lower case, with the names of months and weekdays cut to three letters."""
    return _IN_FULL.sub(lambda found: found[0][:3], text)


def tidy(text: str) -> str:
    """One field by itself as :func:`parse` reads it: lower case, short names, no spaces around ``,``, ``-``, ``/``.

    Other spaces stay and are refused: ``1 5`` is not 15.
    """
    return shorten(_AROUND.sub(r"\1", " ".join(text.lower().split())))


def parse(kind: Kind, text: str, seed: str = "") -> Field:
    """Read the field ``text``.

    :param seed: what ``H`` hashes, as a rule the id of the schedule.
    :raises InvalidSchedule: naming the field.
    """
    field = Field(star=text.startswith("*"))
    reader = _Reader(kind, text, seed)
    for item in text.lower().split(","):
        if not reader.special(item, field):
            field.hashed |= item.startswith("h")
            field.mask |= reader.values(item)
    if kind is DAY_OF_WEEK and field.mask >> 7:
        field.mask = field.mask & 0x7F | 1
    return field


class _Reader:
    """Reads the items of one field; every complaint names it."""

    __slots__ = ("kind", "seed", "text")

    def __init__(self, kind: Kind, text: str, seed: str) -> None:
        self.kind, self.text, self.seed = kind, text, seed

    def fail(self, reason: str) -> NoReturn:
        raise InvalidSchedule(self.kind.name, self.text, reason)

    def special(self, item: str, field: Field) -> bool:
        """Take ``item`` if it is one of ``L``, ``LW``, ``nW``, ``5L``, ``L5``, ``friL``, ``fri#2``."""
        if self.kind is DAY_OF_MONTH:
            if item == "l":
                field.last = True
            elif item == "lw":
                field.last_weekday = True
            elif item.endswith("w"):
                field.nearest += (self.number(item[:-1]),)
            else:
                return False
            return True
        if self.kind is DAY_OF_WEEK:
            if "#" in item:
                day, _, nth = item.partition("#")
                if nth not in ("1", "2", "3", "4", "5"):
                    self.fail("after # comes which one in the month, 1 to 5")
                field.nth += ((self.number(day) % 7, int(nth)),)
            elif item.startswith("l") or item.endswith("l"):
                day = item[1:] if item.startswith("l") else item[:-1]
                if not day:
                    self.fail("L needs a weekday here, as in 5L or friL")
                field.last_of |= 1 << self.number(day) % 7
            else:
                return False
            return True
        return False

    def values(self, item: str) -> int:
        """The mask of a star, value or range, with or without a step."""
        kind = self.kind
        base, slash, step_text = item.partition("/")
        step = self.step(step_text) if slash else 1
        if base == "*":
            high = 6 if kind is DAY_OF_WEEK else kind.high
            self.fits(step, kind.low, high)
            return _mask(range(kind.low, high + 1, step))
        if base.startswith("h"):
            return self.hashed(base, step if slash else None)
        first_text, dash, last_text = base.partition("-")
        first = self.number(first_text)
        if not dash:
            if not slash:
                return 1 << first
            if kind is DAY_OF_WEEK and first == 7:
                first = 0
            high = 6 if kind is DAY_OF_WEEK and first == 0 else kind.high
            return _mask(range(first, high + 1, step))
        last = self.number(last_text)
        if last >= first:
            return _mask(range(first, last + 1, step))
        if first_text in kind.names or last_text in kind.names:
            size = len(kind.names)
            return _mask(kind.low + (n - kind.low) % size for n in range(first, last + size + 1, step))
        return self.backwards(item)

    def backwards(self, item: str) -> NoReturn:
        self.fail(f"{item} runs backwards; only names wrap around, give two ranges")

    def hashed(self, base: str, step: int | None) -> int:
        """``H``, ``H(a-b)``, each with or without a step: the same value for the same seed, everywhere and for ever."""
        kind = self.kind
        low, high = kind.low, kind.hashed
        if base != "h":
            if not (base.startswith("h(") and base.endswith(")") and "-" in base):
                self.fail("H stands alone or with a range, as in H(0-29)")
            first, _, last = base[2:-1].partition("-")
            low, high = self.number(first), self.number(last)
            if high < low:
                self.backwards(base)
        drawn = draw("cron", self.seed, kind.name)
        if step is None:
            return 1 << low + drawn % (high - low + 1)
        self.fits(step, low, high)
        return _mask(range(low + drawn % step, high + 1, step))

    def step(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text)):
            self.fail("a step is a whole number of at least 1")
        return int(text)

    def fits(self, step: int, low: int, high: int) -> None:
        if step > high - low:
            self.fail(f"a step of {step} names {low} only; write {low}, or a step of at most {high - low}")

    def number(self, text: str) -> int:
        kind = self.kind
        if text in kind.names:
            return kind.low + kind.names.index(text)
        if text.isascii() and text.isdigit() and len(text) < 5 and kind.low <= int(text) <= kind.high:
            return int(text)
        names = f" or {kind.names[0]}-{kind.names[-1]}" if kind.names else ""
        self.fail(f"{text!r} is not one of {kind.low}-{kind.high}{names}")


def _mask(values: Iterable[int]) -> int:
    mask = 0
    for value in values:
        mask |= 1 << value
    return mask
