"""A parcel, a letter and means, for the tests of deliveries."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from celery_parrot.delivery.means import Letter, Means
from celery_parrot.delivery.templates import values
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import About, Parcel
from celery_parrot.testing import FakeClock

DUE = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)
FIRE = "0f8fad5b-d9cb-469f-a165-70867728950e"


def parcel(about: About = About.SUCCESS, **changes: Any) -> Parcel:
    plain = Parcel(
        id=f"{FIRE}:{about}",
        fire_id=FIRE,
        key=FireKey("nightly-id", DUE),
        name="nightly",
        about=about,
        queued_at=DUE,
        status=Status.SUCCESS if about is About.SUCCESS else Status.ERROR,
        output="42 rows" if about is About.SUCCESS else None,
        error=None if about is About.SUCCESS else "ValueError: no rows",
        finished_at=DUE,
    )
    return replace(plain, **changes)


def letter(story: Parcel | None = None) -> Letter:
    story = story or parcel()
    return Letter(parcel=story, key=f"{story.fire_id}:{story.about}:0", names=values(story))


def means(**changes: Any) -> Means:
    return Means(**{"clock": FakeClock(DUE), **changes})
