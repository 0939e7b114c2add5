"""Documents compared with what there is."""

from __future__ import annotations

from typing import Any

import pytest

from celery_parrot import ParrotError
from celery_parrot.client import Action, Step, document_of
from tests.unit.client.conftest import World
from tests.unit.client.test_schedules import fields


def actions(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.name, step.action.value) for step in steps]


def done(world: World, documents: list[Any], **how: Any) -> list[Step]:
    return [world.client.carry_out(step) for step in world.client.compare(documents, **how)]


def test_what_is_exported_is_the_same_when_applied(world: World) -> None:
    """Every field comes back, and a second time there is nothing to do."""
    given = fields(
        kind="agent", args=[1], kwargs={"a": {"b": None}}, options={"queue": "q"}, prompt="p", enabled=False,
        missed="skip", misfire_grace=None, jitter=2.5, start_at="2026-05-01T09:00:00", max_fires=9, dst_gap="skip",
    )  # fmt: skip
    view = world.client.create(**given)
    document = document_of(view)
    assert world.client.compare([document])[0].action is Action.UNCHANGED
    world.client.delete("a")
    assert actions(done(world, [document])) == [("a", "create")]
    again = world.client.get("a")
    assert document_of(again) == document
    assert "tenant" not in document


def test_only_what_differs_is_written(world: World) -> None:
    """And said, with what it was."""
    before = world.client.create(**fields(kwargs={"a": 1}, jitter=3))
    same = world.client.create(**fields("same"))
    steps = world.client.compare([fields(kwargs={"a": 2}, jitter=3), fields("same")])
    assert actions(steps) == [("a", "update"), ("same", "unchanged")]
    assert steps[0].changes == {"kwargs": ({"a": 1}, {"a": 2})}
    assert [world.client.carry_out(step) for step in steps] == steps
    assert world.client.get("a").version == before.version + 1
    assert world.client.get("same") == same


def test_what_a_document_leaves_out_has_its_default(world: World) -> None:
    world.client.create(**fields(jitter=3, prompt="p"))
    (step,) = done(world, [fields()])
    assert step.changes == {"prompt": ("p", None), "jitter": (3.0, 0.0)}
    assert world.client.get("a").prompt is None


def test_one_that_is_refused_names_its_field_and_stops_no_other(world: World) -> None:
    steps = done(
        world,
        [
            fields("bad", timezone="Mars/Base"),
            fields("typo", qeue="x"),
            fields("good"),
            fields("nightly"),
            fields("good"),
            {"target": "x"},
            "text",
            fields("moved", store="redis"),
        ],
    )
    assert actions(steps) == [
        ("bad", "refused"),
        ("typo", "refused"),
        ("good", "create"),
        ("nightly", "refused"),
        ("good", "refused"),
        ("number 6", "refused"),
        ("number 7", "refused"),
        ("moved", "refused"),
    ]
    assert [step.field for step in steps if step.error] == [
        "timezone", "qeue", "name", "name", "name", "schedule", "store",
    ]  # fmt: skip
    assert [view.name for view in world.client.find(store="db")] == ["good"]


def test_a_stale_version_in_a_document_is_refused(world: World) -> None:
    made = world.client.create(**fields())
    world.client.update("a", jitter=1)
    (step,) = world.client.compare([{**fields(jitter=2), "version": made.version}])
    assert step.action is Action.REFUSED
    assert "no longer at version 1, it is 2 now" in step.error
    assert world.client.compare([{**fields(jitter=2), "version": 2}])[0].action is Action.UPDATE


def test_what_changes_between_comparing_and_writing_is_refused(world: World) -> None:
    """A person's edit is not undone by a diff that did not show it."""
    world.client.create(**fields())
    (step,) = world.client.compare([fields(jitter=2)])
    world.client.update("a", prompt="somebody else")
    assert world.client.carry_out(step).action is Action.REFUSED
    assert world.client.get("a").prompt == "somebody else"
    world.client.create(**fields("b"))
    (_, doomed) = world.client.compare([fields(prompt="somebody else")], prune=True)
    world.client.update("b", jitter=1)
    assert world.client.carry_out(doomed).action is Action.REFUSED
    assert world.client.get("b").jitter == 1


def test_pruning_deletes_what_no_document_names(world: World) -> None:
    """Of the kind, if one is given; never of the code."""
    for name, kind in (("a", "task"), ("b", "task"), ("c", "agent")):
        world.client.create(**fields(name, kind=kind))
    assert actions(world.client.compare([fields()], prune=True)) == [
        ("a", "unchanged"),
        ("b", "delete"),
        ("c", "delete"),
    ]
    assert actions(done(world, [fields()], prune=True, kind="agent")) == [("a", "unchanged"), ("c", "delete")]
    assert [view.name for view in world.client.find(store="db")] == ["a", "b"]
    assert actions(world.client.compare([fields()], prune=True, store="redis")) == [("a", "unchanged")]
    with pytest.raises(ParrotError, match="nothing is pruned"):
        world.client.compare([{"nmae": "b"}], prune=True)


def test_one_that_is_refused_is_not_pruned(world: World) -> None:
    world.client.create(**fields())
    assert actions(world.client.compare([fields(timezone="Mars/Base")], prune=True)) == [("a", "refused")]
