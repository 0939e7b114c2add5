"""The file of Celery's beat in the forms that systems give it."""

from __future__ import annotations

import dbm.dumb
import pickle
from pathlib import Path

import pytest
from celery.beat import ScheduleEntry
from celery.schedules import crontab

from celery_parrot.errors import ParrotError
from celery_parrot.importers.shelf import read


def write(path: Path, entries: object) -> None:
    with dbm.dumb.open(str(path), "n") as file:
        file["entries"] = pickle.dumps(entries)
        file["tz"] = pickle.dumps("Asia/Tokyo")


def test_a_dumb_database_by_either_name(tmp_path: Path) -> None:
    path = tmp_path / "celerybeat-schedule"
    entry = ScheduleEntry(
        "a", "t.a", schedule=crontab(minute="5"), args=("x",), kwargs={"y": 1}, options={"queue": "q"}
    )
    write(path, {"a": entry, "odd": "text"})
    for name in (path, path.with_suffix(".dat")):
        one, odd = read(str(name), zone="UTC").items
        assert one.fields is not None
        assert (one.fields["target"], one.fields["timezone"], one.fields["args"]) == ("t.a", "Asia/Tokyo", ["x"])
        assert one.fields["options"] == {"queue": "q"}
        assert odd.fields is None
        assert odd.reason == "it is no entry of Celery's beat"


def test_what_is_no_such_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ParrotError, match="no such file"):
        read(str(tmp_path / "nothing"), zone="UTC")
    text = tmp_path / "text"
    text.write_text("not a database at all, but long enough")
    with pytest.raises(ParrotError, match="no database file"):
        read(str(text), zone="UTC")
    write(tmp_path / "other", ["no entries"])
    with pytest.raises(ParrotError, match="no entries"):
        read(str(tmp_path / "other"), zone="UTC")
