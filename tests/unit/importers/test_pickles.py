"""A pickle is read without anything in it being called."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
from collections import Counter, OrderedDict, deque
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from celery_parrot.importers.items import CannotMap
from celery_parrot.importers.pickles import Record, loads


class Calls:
    """Calls something when it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_a_pickle_calls_is_not_called(tmp_path: Path, protocol: int) -> None:
    """Nor imported: the object says what it stood for instead."""
    there = tmp_path / "touched"
    for call in (
        Calls(os.system, f"touch {there}"),
        Calls(subprocess.check_output, ["touch", str(there)]),
        Calls(eval, f"open({str(there)!r}, 'w')"),
        Calls(open, str(there), "w"),
        Calls(io.FileIO, str(there), "w"),
    ):
        found = loads("job", pickle.dumps([call], protocol))[0]
        assert isinstance(found, Record)
    assert not there.exists()


def test_getattr_is_for_time_zones_only() -> None:
    """It leads anywhere: from any object to its class, and from there to every other."""
    text = b"cbuiltins\ngetattr\n(cbuiltins\ndict\nV__class__\ntR."
    with pytest.raises(CannotMap, match="attributes"):
        loads("job", text)
    with pytest.raises(CannotMap, match="attributes"):
        loads("job", b"cbuiltins\ngetattr\n(czoneinfo\nZoneInfo\nV__globals__\ntR.")


def test_one_pickle_changes_nothing_for_the_next() -> None:
    """What stands for a function cannot be given other defaults, nor anything else."""
    for state in (b"(N}S'__defaults__'\n(S'Europe/Paris'\ntst", b"}S'x'\nI1\ns"):
        with pytest.raises(CannotMap, match="changes a function"):
            loads("job", b"cpytz\n_p\n" + state + b"b.")
    assert loads("job", b"cpytz\n_p\n(tR.") == ZoneInfo("UTC")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_comes_through(protocol: int) -> None:
    value = {
        "a": [1, 2.5, None, True, "text", b"bytes", (1, 2)],
        "when": datetime(2027, 1, 1, 9, tzinfo=ZoneInfo("Europe/Madrid")),
        "utc": datetime(2027, 1, 1, 9, tzinfo=UTC),
        "ahead": timezone(timedelta(hours=2)),
        "every": timedelta(days=1, microseconds=3),
    }
    assert loads("job", pickle.dumps(value, protocol)) == value


def test_a_class_is_a_record_that_names_it() -> None:
    for value, name in ((deque([1, 2, 3]), "collections.deque"), (Counter("ab"), "collections.Counter")):
        found = loads("job", pickle.dumps(value))
        assert isinstance(found, Record)
        assert found.class_name == name
    assert loads("job", pickle.dumps(OrderedDict(a=1))) == {"a": 1}
    with pytest.raises(TypeError):
        pickle.dumps(found)


@pytest.mark.parametrize("text", [b"", b"nonsense", pickle.dumps([1])[:-2], b"\x80\x05N", b"\x80\xff.", b"P1\n."])
def test_a_broken_pickle_is_one_sentence(text: bytes) -> None:
    with pytest.raises(CannotMap) as raised:
        loads("job", text)
    assert raised.value.fix


def test_a_huge_pickle_is_not_read() -> None:
    with pytest.raises(CannotMap, match="bytes"):
        loads("job", b"x" * 9_000_000)


def test_an_unknown_time_zone_is_named() -> None:
    text = b"cpytz\n_p\n(VMars/Olympus\ntR."
    with pytest.raises(CannotMap, match="Mars/Olympus"):
        loads("job", text)
    assert loads("job", b"cpytz\n_p\n(VAsia/Tokyo\nI32400\nI0\nVJST\ntR.") == ZoneInfo("Asia/Tokyo")
