"""Pickles, read without running what is in them.

A pickle may name any function of any module to be called. Here the names of a list become neutral records, which hold
what they were given and do nothing; every other name is a record, too, that says what it stood for. Nothing is
imported and nothing is called, so a pickle can at worst be large or deep.
"""

from __future__ import annotations

import io
import pickle  # nosec B403 # read without calling what they name
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

from celery_parrot.importers.items import CannotMap

WHY: Final = (
    "its entries are pickles: whoever could write to it decides what is in them. They are read here without calling "
    "anything that they name, and still only where you say that you trust the source: add --trust-pickles"
)
_LARGEST: Final = 8_000_000


class Record:
    """An object of a class that is not loaded.

    :ivar args: what it was made from. :ivar state: what was set on it afterwards.
    """

    class_name = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Record:
        made = super().__new__(cls)
        made.args, made.kwargs, made.state = args, kwargs, {}
        return made

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: dict[str, Any]

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        """All is done by ``__new__``, which pickle calls alone."""

    def __setstate__(self, state: object) -> None:
        if isinstance(state, tuple) and len(state) == 2:  # of a class with slots
            state = state[1] or state[0]
        self.state = dict(state) if isinstance(state, dict) else {}

    def __setitem__(self, key: Any, value: Any) -> None:
        """Items of a mapping of its own kind are not kept."""

    def append(self, item: Any) -> None:
        """Nor are those of a list."""

    def extend(self, items: Any) -> None:
        """As :meth:`append`."""

    def __reduce__(self) -> Any:
        raise TypeError("a record is not pickled again")


def loads(what: str, text: bytes) -> Any:
    """The object in a pickle, with :class:`Record` for every class that is not plain data.

    :raises CannotMap: naming ``what`` if it cannot be read.
    """
    if len(text) > _LARGEST:
        raise CannotMap(f"its {what} has {len(text)} bytes", "Create it by hand: parrot create")
    try:
        return _Reader(io.BytesIO(text)).load()
    except CannotMap:
        raise
    except Exception as error:  # whatever a broken pickle makes of the machine that reads it
        raise CannotMap(
            f"its {what} cannot be read: {type(error).__name__}: {error}", "Create it by hand: parrot create"
        ) from None


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = {"__builtin__": "builtins"}.get(module, module)
        known = _KNOWN.get((module, name)) or _record(f"{module}.{name}")
        return known if isinstance(known, type) else _Callable(known)

    def persistent_load(self, pid: Any) -> Any:
        raise CannotMap("it refers to something outside of itself", "Create it by hand: parrot create")


class _Callable:
    """A function of ours, as a pickle gets it: to be called, and not to be changed, for other reads have it too."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __setstate__(self, state: object) -> None:
        raise CannotMap("its pickle changes a function", "Create it by hand: parrot create")


def _record(name: str) -> type[Record]:
    return type("Record", (Record,), {"class_name": name})


def _attribute(owner: Any, name: str) -> Any:
    """``getattr`` as a time zone's pickle uses it, and for nothing else."""
    if isinstance(owner, _Callable) and owner.function is _zone and name == "_unpickle":
        return lambda key, _from_cache=True: _zone(key)
    raise CannotMap("its pickle asks for attributes of objects", "Create it by hand: parrot create")


def _zone(key: str, *_rest: Any) -> ZoneInfo:
    if not isinstance(key, str):
        raise CannotMap(f"{key!r} is no time zone", "Create it by hand: parrot create")
    try:
        return ZoneInfo(key)
    except (LookupError, ValueError, OSError):
        raise CannotMap(f"there is no time zone {key!r} here", "Install the tzdata that has it") from None


def _pytz(name: str = "UTC", *_rest: Any) -> ZoneInfo:
    """pytz zones, whose first argument is the name. A summer's and a winter's are one zone here."""
    return _zone(name)


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """Bytes of protocols below 3."""
    return text.encode("latin1" if encoding == "latin1" else "utf-8")


def _made(cls: Any, *_rest: Any) -> Any:
    """An object of protocols below 2, empty until its state is set."""
    if isinstance(cls, type) and issubclass(cls, Record):
        return cls()
    raise CannotMap("its pickle makes an object in a way that is not known", "Create it by hand: parrot create")


def _set(items: Any = ()) -> set[Any]:
    return set(items)


_KNOWN: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    ("datetime", "datetime"): datetime,
    ("datetime", "date"): date,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("zoneinfo", "ZoneInfo"): _zone,
    ("zoneinfo", "ZoneInfo._unpickle"): _zone,
    ("backports.zoneinfo", "ZoneInfo"): _zone,
    ("pytz", "_p"): _pytz,
    ("pytz", "_UTC"): _pytz,
    ("builtins", "getattr"): _attribute,
    ("builtins", "set"): _set,
    ("collections", "OrderedDict"): dict,
    ("copyreg", "_reconstructor"): _made,
    ("copy_reg", "_reconstructor"): _made,
    ("_codecs", "encode"): _encoded,
}
