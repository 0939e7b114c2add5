"""Which limits a fire asks for."""

from __future__ import annotations

from typing import Any

import pytest

from celery_parrot.dispatch.limits import Bounds, in_words, limits_of, refuse_unkept
from celery_parrot.errors import ConfigurationError
from celery_parrot.model.schedule import Kind, Schedule
from celery_parrot.protocols import Busy, Limit
from tests.simulation.rig import every


def _schedule(**policy: Any) -> Schedule:
    return every(60, "s", **policy).schedule


def _kind(**fields: Any) -> Kind:
    return Kind(name="agent", task="t.agent", **fields)


def test_a_fire_that_nothing_limits_needs_nothing() -> None:
    assert limits_of(_schedule(), _kind(), Bounds()) == ()


def test_each_limit_comes_from_where_it_is_set_and_slots_come_last() -> None:
    asked = limits_of(
        _schedule(overlap="skip", exclusion_group="db"),
        _kind(max_in_flight=3, exclusion_group="gpu"),
        Bounds(groups={"gpu": 2}, max_concurrent=9),
    )
    assert asked == (
        Limit("kind:agent", 3, Busy.SKIP),
        Limit("schedule:s", 1, Busy.OVERLAP),
        Limit("group:gpu", 2),
        Limit("group:db", 1),
        Limit("slots", 9),
    )


def test_a_group_named_twice_is_held_once() -> None:
    assert limits_of(_schedule(exclusion_group="gpu"), _kind(exclusion_group="gpu"), Bounds()) == (Limit("group:gpu"),)


@pytest.mark.parametrize(
    ("own", "of_kind", "expected"),
    [
        (None, None, ()),
        ("allow", None, ()),
        ("allow", "skip", ()),
        (None, "skip", (Limit("schedule:s", 1, Busy.OVERLAP),)),
        ("buffer_one", "skip", (Limit("schedule:s", 1, Busy.WAIT, 1),)),
        ("buffer_all", None, (Limit("schedule:s", 1, Busy.WAIT, 100),)),
    ],
)
def test_the_schedules_own_overlap_wins_over_the_kinds(
    own: str | None, of_kind: str | None, expected: tuple[Limit, ...]
) -> None:
    assert limits_of(_schedule(overlap=own), _kind(overlap=of_kind), Bounds()) == expected


def test_limits_are_read_as_people_say_them() -> None:
    assert [in_words(name) for name in ("group:gpu", "slots", "schedule:a:b")] == ["group gpu", "slots", "schedule a:b"]


@pytest.mark.parametrize(
    ("kind", "schedule", "bounds", "key"),
    [
        (_kind(max_in_flight=1), None, Bounds(), "parrot_kinds['agent']['max_in_flight']"),
        (_kind(overlap="skip"), None, Bounds(), "parrot_kinds['agent']['overlap']"),
        (_kind(), _schedule(exclusion_group="g"), Bounds(), "s: exclusion_group"),
        (_kind(), None, Bounds(max_concurrent=2), "parrot_max_concurrent"),
    ],
)
def test_a_limit_that_the_coordinator_does_not_keep_stops_the_start(
    kind: Kind, schedule: Schedule | None, bounds: Bounds, key: str
) -> None:
    with pytest.raises(ConfigurationError, match="str keeps none") as caught:
        refuse_unkept("", [kind], [schedule] if schedule else [], bounds)
    assert caught.value.key == key
    refuse_unkept("", [_kind(overlap="allow")], [_schedule(overlap="allow")], Bounds())
