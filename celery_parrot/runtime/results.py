"""What a task returned or raised, as the text that history keeps.

The work is bounded by the text that is kept, never by the size of the value, and nothing here raises: a result that
cannot be shown must not change what became of the fire.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import reprlib
import traceback
from collections.abc import Iterable, Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from celery_parrot.model.secrets import mask

MARKER: Final = " … [cut]"
LIMIT: Final = 4096

_MAX_DEPTH: Final = 40  # deeper than any honest result, far from Python's recursion limit
_PLAIN: Final = (date, time, timedelta, Decimal, UUID, PurePath)


def format_result(value: object, limit: int = LIMIT) -> str | None:
    """The return value of a task as text: None stays None, text and bytes as they are, everything else as JSON.

    What JSON does not know becomes its ``str`` (dates, decimals, ids, paths), a list (sets, tuples), an object
    (dataclasses) or its ``repr``.

    :param limit: longest text in characters, including the marker that says it was cut.
    """
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return cut(value, limit)
        if isinstance(value, bytes | bytearray | memoryview):
            return cut(_decoded(value, limit), limit)
        if isinstance(value, BaseException):
            return format_error(value, limit)
        return cut(json.dumps(_Pruner(limit).pruned(value), ensure_ascii=False), limit)
    except Exception:
        return cut(_fallback(value), limit)


def format_error(exc: BaseException, limit: int = LIMIT) -> str:
    """``Type: message``, or ``Type`` where the exception says nothing, cut to ``limit`` characters. Without the
    passwords of URLs: it goes into history, mails and callbacks."""
    exc = unwrapped(exc)
    name = type(exc).__name__
    try:
        message = _message(exc, limit)
    except Exception:
        message = "(its message cannot be shown)"
    return cut(_masked(f"{name}: {message}") if message else name, limit)


def format_traceback(exc: BaseException, limit: int = LIMIT) -> str | None:
    """Where an exception was raised, and what led to it, innermost last, the end of it if it is too long; None if that
    is not known. No values of variables, no passwords of URLs."""
    try:
        told = getattr(exc, "tb", None)  # billiard's envelope has it as text
        text = told if isinstance(told, str) else "".join(_raised(exc, limit))
        text = _masked(text.strip().strip('"').strip())
    except Exception:
        return None
    if len(text) > limit:
        text = _BEFORE + text[len(text) - max(limit - len(_BEFORE), 0) :]
    return cut(text, limit) or None


_BEFORE: Final = "[cut] … "
_FRAMES: Final = 20
_CAUSES: Final = 5


def _raised(exc: BaseException, limit: int) -> Iterable[str]:
    chain: list[BaseException] = []
    cause: BaseException | None = exc
    while cause is not None and len(chain) < _CAUSES:
        chain.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    if exc.__traceback__ is None:
        return
    for one in reversed(chain):
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_list(traceback.extract_tb(one.__traceback__, limit=-_FRAMES))
        yield format_error(one, limit) + ("" if one is exc else "\n\n")


def unwrapped(exc: BaseException) -> BaseException:
    """The exception itself, without the envelope that billiard puts around one of another process."""
    inner = getattr(exc, "exc", None)
    enveloped = type(exc).__name__ == "ExceptionWithTraceback" and isinstance(inner, BaseException)
    return inner if enveloped and inner is not None else exc


def cut(text: str, limit: int = LIMIT) -> str:
    """``text`` if it fits, else its beginning and a marker, ``limit`` characters together. Always encodable."""
    if len(text) > limit:
        text = text[: limit - len(MARKER)] + MARKER if limit >= len(MARKER) else text[:limit]
    text = text.replace("\0", "\ufffd")  # no text of PostgreSQL's
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, as os.fsdecode makes them: no store takes those
        text = text.encode("utf-8", "replace").decode()
    return text


def _masked(text: str) -> str:
    """A word at a time: over a text without spaces that is full of URLs, the time to mask grows with its square."""
    return _WORD.sub(lambda word: mask(word[0]) if "://" in word[0] else word[0], text)


_WORD: Final = re.compile(r"\S{1,2000}")


def _message(exc: BaseException, limit: int) -> str:
    # str() of an exception with one text argument is that text: slice it before anything copies a huge one.
    if len(exc.args) == 1 and isinstance(exc.args[0], str) and type(exc).__str__ in _PLAIN_STR:
        return exc.args[0][: limit + 1]
    return str(exc)[: limit + 1]


_PLAIN_STR: Final = (BaseException.__str__, Exception.__str__)


def _decoded(value: bytes | bytearray | memoryview, limit: int) -> str:
    return bytes(value[: 4 * limit + 4]).decode("utf-8", "replace")


def _fallback(value: object) -> str:
    try:
        return _shortrepr.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


_shortrepr = reprlib.Repr()
_shortrepr.maxother = _shortrepr.maxstring = LIMIT


class _Pruner:
    """Copies a value into plain JSON types, dropping what lies beyond a budget of characters.

    Every node costs at least what it adds to the text, so a value that was pruned still makes a text longer than the
    limit, and is then visibly cut.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit + 1

    def pruned(self, value: object, depth: int = 0) -> Any:
        if isinstance(value, Enum):
            value = value.value
        if value is None or isinstance(value, bool):
            return self._scalar(value)
        if isinstance(value, str):
            return self._text(str(value))
        if isinstance(value, int):
            return self._scalar(int(value))
        if isinstance(value, float):
            return self._scalar(float(value)) if math.isfinite(value) else self._text(repr(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._text(_decoded(value, self._limit))
        if isinstance(value, _PLAIN):
            return self._text(str(value))
        if isinstance(value, BaseException):
            return self._text(format_error(value, self._limit))
        if depth >= _MAX_DEPTH:
            return self._text("…")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(((f.name, getattr(value, f.name)) for f in dataclasses.fields(value)), depth)
        if isinstance(value, Mapping):
            return self._object(value.items(), depth)
        if isinstance(value, list | tuple | Set):
            return self._array(value, depth)
        return self._text(_fallback(value))

    def _scalar(self, value: object) -> object:
        self._left -= 1
        return value

    def _text(self, text: str) -> str:
        text = text[: max(0, self._left)]
        self._left -= len(text) + 2
        return text

    def _array(self, items: Iterable[object], depth: int) -> list[Any]:
        out: list[Any] = []
        self._left -= 2
        for item in islice(items, self._limit + 1):
            if self._left <= 0:
                break
            out.append(self.pruned(item, depth + 1))
        return out

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        self._left -= 2
        for key, item in islice(items, self._limit + 1):
            if self._left <= 0:
                break
            name = self._text(key if isinstance(key, str) else _key(key))
            out[name] = self.pruned(item, depth + 1)
        return out


def _key(key: object) -> str:
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    return str(key) if isinstance(key, _PLAIN) else _fallback(key)
