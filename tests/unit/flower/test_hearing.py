"""Events of whoever reaches the broker: what is not as documented is left out, the rest is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from celery_parrot.flower.hearing import GREATEST, LONGEST, sane

TOLD: dict[str, Any] = {
    "type": "fire-sent", "hostname": "beat@here", "timestamp": 100.5, "utcoffset": -1, "scheduler": "shop",
    "schedule": "nächtlich", "schedule_id": "n1", "kind": "report", "store": "db", "fire_id": "f1",
    "due_at": "2026-03-29T01:30:00+00:00", "origin": "schedule", "attempt": 2, "late": 0.5, "count": 3,
    "until": "2026-03-29T02:30:00+00:00",
}  # fmt: skip


def test_an_event_of_ours_stays_as_it_is() -> None:
    """But for what Celery adds and nobody here reads."""
    assert sane({**TOLD, "pid": 1, "clock": 2, "local_received": 3.0}) == TOLD


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("late", float("nan")), ("late", float("inf")), ("late", 10**400), ("late", "0.5"), ("late", True),
        ("timestamp", "noon"), ("timestamp", None), ("utcoffset", [1]),
        ("attempt", 0), ("attempt", 1.5), ("attempt", True), ("attempt", GREATEST + 1),
        ("count", -1000), ("count", "3"),
        ("schedule", 5), ("worker", True), ("held_by", 7), ("kind", {"a": 1}), ("reason", ["a"]),
        ("due_at", "tomorrow"), ("due_at", 1.5), ("due_at", "2026-03-29T01:30:00"), ("until", "0001-01-01T00:00+01:00"),
    ],
)  # fmt: skip
def test_what_does_not_belong_into_a_field_is_left_out(name: str, value: object) -> None:
    """A browser cannot parse NaN, and a page does not draw a list where it expects a text."""
    kept = sane({**TOLD, name: value})
    assert kept == {key: one for key, one in TOLD.items() if key != name}


def test_instants_are_written_as_browsers_read_them() -> None:
    """They know neither weeks nor offsets with seconds."""
    assert sane({"due_at": "2026-W01-1T01:00:30+01:00:30"}) == {"due_at": "2025-12-29T00:00:00+00:00"}


def test_long_texts_are_cut_and_all_of_them_can_be_encoded() -> None:
    """Ten thousand fires are kept, and a browser cannot put half a surrogate pair into an address."""
    kept = sane({"reason": "x" * 10_000_000, "schedule_id": "a\ud800"})
    assert kept == {"reason": "x" * (LONGEST - 1) + "…", "schedule_id": "a?"}
    json.dumps(kept).encode()
