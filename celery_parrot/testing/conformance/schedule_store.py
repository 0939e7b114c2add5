"""What every editable schedule store keeps: the read side and the edit side.

class TestMine(ScheduleStoreConformance):
    @pytest.fixture
    def stores(self) -> StoreBackend:
        return MyBackend()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

import pytest

from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.model.schedule import Policy, Schedule
from celery_parrot.protocols.editing import Change, DefinitionStore, State, Stored, Written
from celery_parrot.protocols.stores import Due, ScheduleStore

EVERY = 60
"""Seconds between the due times of the schedules in these suites."""


class EditableStore(ScheduleStore, DefinitionStore, Protocol):
    """Both sides of one store."""


class StoreBackend(Protocol):
    """One implementation under test, empty at the beginning of each test."""

    def store(self) -> Any:
        """A new client, as another process would have: an :class:`EditableStore`."""
        ...

    def sync(self, store: Any) -> None:
        """What a beat does before it scans: have the marks asked for and told, where the store has none itself."""
        ...

    def now(self) -> datetime:
        """The clock that the store goes by."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass; or, where the store's clock cannot be moved, make all that is stored that much older."""
        ...

    def spoil(self, schedule_id: str) -> None:
        """Make a stored definition unreadable, behind the store's back."""
        ...

    def mend(self, schedule_id: str) -> None:
        """Undo :meth:`spoil`, behind the store's back."""
        ...


def make(name: str, **changes: Any) -> Schedule:
    """A minutely schedule of this name, with an id of its own."""
    fields: dict[str, Any] = {
        "schedule_id": str(uuid5(NAMESPACE_URL, name)),
        "name": name,
        "target": "app.task",
        "schedule_type": "interval",
        "schedule_config": {"seconds": EVERY},
        "store": "db",
    }
    return Schedule(**{**fields, **changes})


class StoreScene:
    """A store, a second client of it, and short names for what is done with them."""

    def __init__(self, backend: StoreBackend) -> None:
        self.backend = backend
        self.s = backend.store()
        self.other = backend.store()
        # Due times half a period away from now: a test has that long to take before one more comes.
        self.config = {"seconds": EVERY, "offset": (backend.now().second + EVERY // 2) % EVERY}

    def add(self, *names: str, **changes: Any) -> Sequence[Schedule]:
        made = [make(name, **{"store": self.s.name, "schedule_config": self.config, **changes}) for name in names]
        assert list(self.s.insert(made)) == [Written.DONE] * len(names)
        return made

    def due(self, *kinds: str, after: float = 0.0, limit: int = 100, store: Any = None) -> list[Due]:
        """What is due ``after`` seconds from now."""
        asked = store or self.s
        self.backend.sync(asked)
        return list(asked.due(self.backend.now() + timedelta(seconds=after), kinds or ("task",), limit))

    def names(self, *kinds: str, **how: Any) -> list[str]:
        return [due.schedule.name for due in self.due(*kinds, **how)]

    def get(self, name: str) -> Stored:
        found = self.s.get([name])[0]
        assert found is not None, f"no schedule {name}"
        return found  # type: ignore[no-any-return]

    def ranges(self, name: str) -> list[FireRecord]:
        """History entries of due times that were not fired, oldest first."""
        schedule_id = make(name).schedule_id
        found = [entry for entry in self.s.fires(schedule_id) if entry.status in (Status.MISSED, Status.SKIPPED)]
        return sorted(found, key=lambda entry: entry.key)


class _Base:
    @pytest.fixture
    def stores(self) -> StoreBackend:
        """The implementation under test. Override."""
        raise NotImplementedError("override the fixture stores")

    @pytest.fixture
    def scene(self, stores: StoreBackend) -> StoreScene:
        return StoreScene(stores)


class ReadSide(_Base):
    """Scanning."""

    def test_nothing_is_due_at_creation(self, scene: StoreScene) -> None:
        """Creating never makes a due time; the first one after it is due when it comes."""
        scene.add("a")
        assert scene.names() == []
        assert scene.names(after=EVERY + 1) == ["a"]

    def test_the_first_due_time_after_creation_is_not_lost(self, scene: StoreScene) -> None:
        """Noticed later than it was due, it is due all the same."""
        made = scene.add("a")[0]
        scene.backend.advance(EVERY + 1)
        (due,) = scene.due()
        first = due.trigger.next_after(due.mark)
        assert due.schedule.schedule_id == made.schedule_id
        assert first is not None
        assert first <= scene.backend.now()
        assert due.held is None

    def test_no_kinds_no_answer(self, scene: StoreScene) -> None:
        """A beat that routes nothing asks for nothing."""
        scene.add("a")
        assert list(scene.s.due(scene.backend.now() + timedelta(hours=1), (), 10)) == []
        assert scene.s.next_due(()) is None

    def test_kinds_match_exactly(self, scene: StoreScene) -> None:
        """No prefix, no other case, no wildcard, no default."""
        for name, kind in {"a": "task", "b": "Task", "c": "task2", "d": "tas_", "e": "ta%"}.items():
            scene.add(name, kind=kind)
        scene.backend.advance(EVERY)
        assert scene.names("task") == ["a"]
        assert scene.names("ta%", "*") == ["e"]
        assert sorted(scene.names("Task", "tas_")) == ["b", "d"]

    def test_elsewhere_is_every_other_kind(self, scene: StoreScene) -> None:
        """Due rows of kinds without a route are found, to be complained about."""
        scene.add("a")
        scene.add("b", kind="agent")
        scene.backend.advance(EVERY)
        found = scene.s.due_elsewhere(scene.backend.now(), ("task",), 10)
        assert [due.schedule.name for due in found] == ["b"]

    def test_earliest_first_up_to_the_limit(self, scene: StoreScene) -> None:
        """Over all kinds together."""
        scene.add("hourly", schedule_config={"hours": 1})
        scene.add("minutely", kind="agent")
        scene.add("daily", schedule_config={"days": 1})
        assert scene.names("task", "agent", after=86_400) == ["minutely", "hourly", "daily"]
        assert scene.names("task", "agent", after=86_400, limit=2) == ["minutely", "hourly"]

    def test_jitter_counts(self, scene: StoreScene) -> None:
        """A schedule is due at its sending instant."""
        scene.add("a", policy=Policy(jitter=50.0))
        scene.due()
        at = scene.s.next_due(("task",))
        assert at is not None
        assert list(scene.s.due(at - timedelta(microseconds=1), ("task",), 10)) == []
        assert len(scene.s.due(at, ("task",), 10)) == 1

    def test_next_due(self, scene: StoreScene) -> None:
        """The earliest sending instant of these kinds only."""
        scene.add("a", schedule_config={"hours": 1})
        scene.add("b", kind="agent")
        scene.due("task", "agent")
        now = scene.backend.now()
        agent, task = scene.s.next_due(("agent",)), scene.s.next_due(("task",))
        assert agent is not None
        assert task is not None
        assert now - timedelta(seconds=5) < agent <= now + timedelta(seconds=EVERY)
        assert task <= now + timedelta(hours=1)
        assert scene.s.next_due(("task", "agent")) == min(agent, task)
        assert scene.s.next_due(("other",)) is None

    def test_definitions_by_id(self, scene: StoreScene) -> None:
        """Paused ones included, strangers left out."""
        a, b = scene.add("a", "b")
        scene.s.hold([b.schedule_id], "person", "")
        found = scene.s.definitions([a.schedule_id, b.schedule_id, "code-schedule", str(uuid5(NAMESPACE_URL, "x"))])
        assert {id_: due.schedule.name for id_, due in found.items()} == {a.schedule_id: "a", b.schedule_id: "b"}
        assert found[b.schedule_id].held == "person"

    def test_every_field_comes_back(self, scene: StoreScene) -> None:
        """What was given is what is planned with and shown, emoji, quotes and nulls included."""
        name = "emoji 🦜 \"double\" 'single' `back` 100%s :x {y} \\"
        policy = Policy(
            misfire_grace=None,
            catch_up_limit=7,
            jitter=1.5,
            start_at=datetime(2020, 1, 1, tzinfo=UTC),
            end_at=datetime(2100, 1, 1, tzinfo=UTC),
            max_fires=9,
            overlap="skip",
            exclusion_group="g",
            recover=True,
            dst_gap="skip",
            dst_fold="both",
        )
        given = scene.add(
            name,
            kind="agent",
            target="a.b",
            method_name="run",
            prompt="tell 🦜\n'quoted'",
            target_id="t1",
            tenant="acme",
            args=(None, 1, 2.5, "x", {"k": [True]}),
            kwargs={"q": None, "é": "ü"},
            options={"queue": "q", "priority": 3, "expires": 5, "countdown": 1},
            timezone="Europe/Madrid",
            schedule_type="cron",
            schedule_config={"expr": "*/5 * * * *"},
            policy=policy,
            callbacks=({"type": "task", "task": "a.b", "kwargs": {"é": "🦜"}}, {"type": "own", "name": "x"}),
            failure_callbacks=({"type": "email", "to": ["a@b.example"]},),
            missed_callbacks=({"type": "file", "path": "x/$name"},),
            send_result={"recipients": "a@b.example", "include_result": False},
        )[0]
        found = scene.get(name).schedule
        assert found is not None
        assert replace(found, created_at=None) == given
        (due,) = scene.due("agent", after=600)
        assert due.schedule == found

    # --- broken ones ---

    def test_a_spoilt_definition_harms_no_other(self, scene: StoreScene) -> None:
        """It is kept, listed and has a reason, from the first scan that meets it to the first that does not."""
        a, _ = scene.add("a", "b")
        scene.due()
        scene.backend.spoil(a.schedule_id)
        assert scene.names(after=EVERY) == ["b"]
        broken = scene.get("a")
        assert broken.state is State.BROKEN
        assert broken.broken_reason
        assert broken.raw
        assert [one.name for one in scene.s.find(state=State.BROKEN).items] == ["a"]
        scene.backend.mend(a.schedule_id)
        assert sorted(scene.names(after=2 * EVERY)) == ["a", "b"]
        assert scene.get("a").broken_reason is None
        assert scene.get("a").state is State.ACTIVE


class EditSide(_Base):
    """Editing."""

    # --- insert ---

    def test_names_are_unique(self, scene: StoreScene) -> None:
        """A second one of the name is refused, and the others of the call are not."""
        scene.add("a")
        again = [make("a", schedule_id=str(uuid5(NAMESPACE_URL, "other")), store=scene.s.name), make("b")]
        assert list(scene.s.insert(again)) == [Written.EXISTS, Written.DONE]
        assert len(scene.s.find().items) == 2

    def test_a_new_one_starts_at_version_one(self, scene: StoreScene) -> None:
        """Whatever the version of what it was copied from."""
        scene.add("a", version=7)
        found = scene.get("a").schedule
        assert found is not None
        assert found.version == 1
        assert found.created_at is not None

    @pytest.mark.parametrize(("ago", "due"), [(100, True), (-100, False)])
    def test_a_one_shot_in_the_past_still_has_its_instant(self, scene: StoreScene, ago: float, due: bool) -> None:
        """Whether it is too late is for the planner to say."""
        instant = scene.backend.now() - timedelta(seconds=ago)
        scene.add("a", schedule_type="once", schedule_config={"run_date": instant.isoformat()})
        found = scene.due()
        assert bool(found) is due
        assert [one.trigger.next_after(one.mark) for one in found] == ([instant] if due else [])

    # --- replace ---

    def test_an_edit_grows_the_version(self, scene: StoreScene) -> None:
        """And is seen by every other process at its next scan."""
        made = scene.add("a")[0]
        scene.due()
        scene.due(store=scene.other)
        assert list(scene.s.replace([Change(schedule=replace(made, prompt="new"), version=1)])) == [(Written.DONE, 2)]
        for store in (scene.s, scene.other):
            (due,) = scene.due(after=EVERY, store=store)
            assert (due.schedule.prompt, due.schedule.version) == ("new", 2)

    def test_an_edit_of_whom_to_tell_moves_nothing(self, scene: StoreScene) -> None:
        """And is known to every other process at its next scan; what is taken away is gone."""
        told = {
            "callbacks": ({"type": "a"},),
            "missed_callbacks": ({"type": "b"},),
            "send_result": {"to": "a@b.example"},
        }
        made = scene.add("a", **told)[0]
        mark = scene.due(after=EVERY, store=scene.other)[0].mark
        changed = replace(made, callbacks=(), missed_callbacks=(), send_result={}, failure_callbacks=({"type": "c"},))
        assert list(scene.s.replace([Change(schedule=changed, version=1)])) == [(Written.DONE, 2)]
        (due,) = scene.due(after=EVERY, store=scene.other)
        assert (sorted(due.schedule.tells), due.mark) == (["failure"], mark)

    def test_a_stale_version_changes_nothing(self, scene: StoreScene) -> None:
        """Two people who edit at once do not overwrite each other."""
        made = scene.add("a")[0]
        scene.s.replace([Change(schedule=replace(made, prompt="first"), version=1)])
        reply = scene.other.replace([Change(schedule=replace(made, prompt="second"), version=1)])
        assert list(reply) == [(Written.CONFLICT, 2)]
        found = scene.get("a").schedule
        assert found is not None
        assert found.prompt == "first"
        assert scene.s.replace([Change(schedule=replace(made, prompt="third"))])[0] == (Written.DONE, 3)

    def test_what_is_gone_is_said_to_be(self, scene: StoreScene) -> None:
        """For every verb."""
        stranger = make("x")
        assert scene.s.replace([Change(schedule=stranger, version=1)])[0][0] is Written.GONE
        for call in (
            scene.s.delete([stranger.schedule_id]),
            scene.s.hold([stranger.schedule_id], "person", ""),
            scene.s.release([stranger.schedule_id]),
        ):
            assert list(call) == [Written.GONE]
        assert list(scene.s.get(["x", stranger.schedule_id])) == [None, None]

    def test_a_rename_to_a_taken_name_is_refused(self, scene: StoreScene) -> None:
        """And leaves both as they were; a free one is taken."""
        a, _ = scene.add("a", "b")
        assert scene.s.replace([Change(schedule=replace(a, name="b"))])[0][0] is Written.EXISTS
        assert scene.s.replace([Change(schedule=replace(a, name="c"))])[0][0] is Written.DONE
        assert [one.name for one in scene.s.find().items] == ["b", "c"]

    def test_editing_arguments_moves_nothing(self, scene: StoreScene) -> None:
        """What was due before stays due, with the new arguments."""
        made = scene.add("a")[0]
        (first,) = scene.due(after=EVERY)
        scene.backend.advance(3 * EVERY)
        (before,) = scene.due()
        scene.s.replace([Change(schedule=replace(made, args=(1,), kwargs={"x": 2}, prompt="p"))])
        (due,) = scene.due()
        assert due.mark == before.mark
        assert due.mark <= first.mark
        assert due.schedule.args == (1,)
        assert scene.ranges("a") == []

    @pytest.mark.parametrize(
        "change",
        [
            {"schedule_config": {"seconds": 7 * EVERY}},
            {"schedule_type": "every_n_hours", "schedule_config": {"n": 1}},
            {"timezone": "Asia/Tokyo"},
            {"policy": Policy(start_at=datetime(2021, 1, 1, tzinfo=UTC))},
            {"enabled": False},
        ],
        ids=["config", "type", "timezone", "bounds", "enabled"],
    )
    def test_an_edit_of_when_supersedes_what_was_undecided(self, scene: StoreScene, change: dict[str, Any]) -> None:
        """As one entry with its count, and nothing before the edit is due any more."""
        made = scene.add("a")[0]
        scene.due()
        scene.backend.advance(10 * EVERY)
        scene.s.replace([Change(schedule=replace(made, **change))])
        assert scene.names() == []
        (entry,) = scene.ranges("a")
        assert (entry.status, entry.reason, entry.count) == (Status.MISSED, "superseded", 10)
        assert entry.until is not None
        assert entry.until - entry.due_at == timedelta(seconds=9 * EVERY)

    def test_enabling_makes_no_due_time(self, scene: StoreScene) -> None:
        """What came while it was disabled is neither fired nor missed; the phase stays."""
        made = scene.add("a", enabled=False)[0]
        scene.due()
        scene.backend.advance(10 * EVERY)
        assert scene.names() == []
        scene.s.replace([Change(schedule=replace(made, enabled=True))])
        assert scene.names() == []
        (due,) = scene.due(after=EVERY)
        assert due.trigger.next_after(due.mark) == due.trigger.next_after(scene.backend.now())
        assert scene.ranges("a") == []

    def test_a_one_shot_that_was_disabled_over_its_instant_stays_silent(self, scene: StoreScene) -> None:
        """Enabling never makes a due time."""
        instant = scene.backend.now() + timedelta(seconds=30)
        config = {"run_date": instant.isoformat()}
        made = scene.add("a", schedule_type="once", schedule_config=config, enabled=False)[0]
        scene.backend.advance(40)
        moved = {"run_date": (instant - timedelta(seconds=40)).isoformat()}
        scene.s.replace([Change(schedule=replace(made, enabled=True, schedule_config=moved))])
        assert scene.names() == []

    # --- delete ---

    def test_delete(self, scene: StoreScene) -> None:
        """It is gone from every process, and its history is not."""
        made = scene.add("a")[0]
        scene.due(store=scene.other)
        scene.backend.advance(3 * EVERY)
        scene.s.replace([Change(schedule=replace(made, schedule_config={"seconds": 90}))])
        scene.due()
        assert list(scene.s.delete([made.schedule_id], 1)) == [Written.CONFLICT]
        assert list(scene.s.delete([made.schedule_id], 2)) == [Written.DONE]
        assert scene.names(after=600, store=scene.other) == []
        assert scene.other.definitions([made.schedule_id]) == {}
        assert len(scene.ranges("a")) == 1

    def test_the_same_name_again_is_another_schedule(self, scene: StoreScene) -> None:
        """It inherits neither mark nor history."""
        made = scene.add("a")[0]
        scene.backend.advance(10 * EVERY)
        scene.s.delete([made.schedule_id])
        scene.add("a", schedule_id=str(uuid5(NAMESPACE_URL, "again")))
        assert scene.names() == []
        assert scene.names(after=EVERY) == ["a"]

    # --- hold and release ---

    @pytest.mark.parametrize(("by", "state"), [("person", State.PAUSED), ("failures", State.DISABLED)])
    def test_hold(self, scene: StoreScene, by: str, state: State) -> None:
        """It is not due, keeps its definition and its version, and says why."""
        made = scene.add("a")[0]
        scene.due()
        assert list(scene.s.hold([made.schedule_id], by, "too loud", 2)) == [Written.CONFLICT]
        assert list(scene.s.hold([made.schedule_id], by, "too loud", 1)) == [Written.DONE]
        scene.backend.advance(2 * EVERY)
        assert scene.names() == []
        found = scene.get("a")
        assert (found.state, found.held, found.note) == (state, by, "too loud")
        assert found.schedule is not None
        assert (found.schedule.enabled, found.schedule.version) == (True, 1)
        assert [one.name for one in scene.s.find(state=state).items] == ["a"]

    def test_the_next_run_of_a_paused_one_is_shown_as_it_would_be(self, scene: StoreScene) -> None:
        """A person who thinks of resuming wants to know."""
        made = scene.add("a")[0]
        scene.s.hold([made.schedule_id], "person", "")
        scene.backend.advance(10 * EVERY)
        shown = scene.get("a").run_state.next_run
        assert shown is not None
        assert timedelta(0) < shown - scene.backend.now() <= timedelta(seconds=EVERY)

    def test_release(self, scene: StoreScene) -> None:
        """What came meanwhile is one skipped range; it goes on from now."""
        made = scene.add("a")[0]
        scene.due()
        scene.s.hold([made.schedule_id], "person", "why")
        scene.backend.advance(10 * EVERY)
        assert list(scene.s.release([made.schedule_id])) == [Written.DONE]
        assert scene.names() == []
        (entry,) = scene.ranges("a")
        assert (entry.status, entry.reason, entry.count) == (Status.SKIPPED, "paused", 10)
        found = scene.get("a")
        assert (found.state, found.held, found.note) == (State.ACTIVE, None, None)
        assert scene.names(after=EVERY) == ["a"]

    # --- reading ---

    def test_get_by_name_and_id(self, scene: StoreScene) -> None:
        """In order."""
        a, b = scene.add("a", "b")
        found = scene.s.get(["b", a.schedule_id, "x"])
        assert [one and one.name for one in found] == ["b", "a", None]
        assert found[0] is not None
        assert found[0].schedule_id == b.schedule_id

    def test_find_pages_by_name(self, scene: StoreScene) -> None:
        """Ascending; each exactly once; the last page has no cursor."""
        scene.add(*[f"s{n:02}" for n in range(7)])
        seen, after = [], ""
        while True:
            page = scene.s.find(after=after, limit=3)
            seen += [one.name for one in page.items]
            after = page.after
            if not after:
                break
        assert seen == [f"s{n:02}" for n in range(7)]

    def test_find_filters(self, scene: StoreScene) -> None:
        """By kind, state and a part of name or target; a percent sign is one."""
        scene.add("mail 100%", target="send.Mail")
        scene.add("report", kind="agent")
        scene.add("off", enabled=False)
        scene.due("task", "agent")

        def names(**how: Any) -> list[str]:
            return [one.name for one in scene.s.find(**how).items]

        assert names(kind="agent") == ["report"]
        assert names(text="MAIL") == ["mail 100%"]
        assert names(text="0%") == ["mail 100%"]
        assert names(text="%o") == []
        assert names(state=State.ACTIVE) == ["mail 100%", "report"]
        assert names(state=State.PAUSED) == ["off"]
        assert names(state=State.COMPLETED) == []

    def test_names_that_contain_a_text(self, scene: StoreScene) -> None:
        """Names only, whatever their case; a percent sign is one; no more than asked for."""
        scene.add("Mail 100%", "mail", target="send.report")
        scene.add("off", enabled=False)
        assert sorted(scene.s.names_with("MAIL", 10)) == ["Mail 100%", "mail"]
        assert len(scene.s.names_with("mail", 1)) == 1
        assert list(scene.s.names_with("0%", 10)) == ["Mail 100%"]
        assert list(scene.s.names_with("report", 10)) == []

    def test_history_is_read_backwards_in_pages(self, scene: StoreScene) -> None:
        """Newest first, strictly before the last seen."""
        made = scene.add("a")[0]
        for seconds in (61, 62, 63):
            scene.due()
            scene.backend.advance(5 * EVERY)
            made = replace(made, schedule_config={"seconds": seconds})
            scene.s.replace([Change(schedule=made)])
        first = scene.s.fires(made.schedule_id, limit=2)
        rest = scene.s.fires(made.schedule_id, limit=2, before=first[-1].due_at)
        dues = [entry.due_at for entry in (*first, *rest)]
        assert dues == sorted(dues, reverse=True)
        assert len(dues) == 3
        assert scene.s.fires(made.schedule_id, limit=0) == []


class ScheduleStoreConformance(ReadSide, EditSide):
    """Both sides."""
