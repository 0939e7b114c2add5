"""Celery's schedule objects: the same due times as Celery's own, away from clock changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from random import Random
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule, solar
from dateutil import tz as dateutil_tz

from celery_parrot.errors import InvalidSchedule
from celery_parrot.runtime.celery_schedules import ForeignTrigger, to_spec, to_trigger, zone_name
from celery_parrot.triggers import Trigger, build
from celery_parrot.triggers.solar import EVENTS
from tests.unit.triggers.witness import ZONES

STEPS = 10
START = datetime(2026, 1, 1, tzinfo=UTC)
CLOSE = timedelta(hours=26)


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("parrot-test", set_as_current=False) as app:
        yield app


def celerys_next(obj: BaseSchedule, last: datetime) -> datetime:
    """The due time that Celery works out right after ``last``."""
    obj.nowfun = lambda: last  # type: ignore[attr-defined]
    return last + obj.remaining_estimate(last)


def field(rng: Random, low: int, high: int, names: str = "") -> str:
    kind, a, b = rng.random(), rng.randint(low, high), rng.randint(low, high)
    if kind < 0.35:
        return "*"
    if kind < 0.5:
        return f"*/{rng.randint(1, 8)}"
    if kind < 0.65:
        return f"{a}-{b}"  # may wrap around, as Celery allows
    if kind < 0.75:
        return f"{min(a, b)}-{max(a, b)}/{rng.randint(1, 5)}"
    if kind < 0.85 and names:
        return rng.choice(names.split())
    return f"{a},{b}"


def random_crontab(rng: Random, app: Celery) -> crontab:
    return crontab(
        minute=field(rng, 0, 59),
        hour=field(rng, 0, 23),
        day_of_week=field(rng, 0, 6, "mon sun tue-thu sat-mon Fri"),
        day_of_month="*" if rng.random() < 0.5 else field(rng, 1, 28),
        month_of_year="*" if rng.random() < 0.6 else field(rng, 1, 12),
        app=app,
    )


def changes_between(zone: ZoneInfo, begin: datetime, end: datetime) -> bool:
    """Whether the zone's offset changes within 26 hours of the span."""
    at, step = begin - CLOSE, timedelta(hours=6)
    offset = at.astimezone(zone).utcoffset()
    while at < end + CLOSE:
        at += step
        if at.astimezone(zone).utcoffset() != offset:
            return True
    return False


def test_crontabs_are_due_when_celery_says(app: Celery, full: bool) -> None:
    rng = Random(20_264)
    compared = 0
    cases = 20_000 if full else 1_000
    for _ in range(cases):
        name = rng.choice(ZONES)
        zone = ZoneInfo(name)
        app.conf["timezone"] = name
        app.__dict__.pop("timezone", None)
        obj = random_crontab(rng, app)
        trigger = to_trigger(obj, app.timezone, anchor=START)
        due = datetime(rng.randint(2000, 2036), 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randint(0, 366 * 86_400))
        for _ in range(STEPS):
            following = trigger.next_after(due)
            assert following is not None
            if following - due < timedelta(days=40) and not changes_between(zone, due, following):
                compared += 1
                assert celerys_next(obj, due.astimezone(zone)).astimezone(UTC) == following, (
                    f"{obj} in {name} after {due}"
                )
            due = following
    assert compared > cases * STEPS / 2


def test_intervals_are_due_when_celery_says(app: Celery) -> None:
    """From one due time to the next; the first one is ours: a multiple since 1970, not the moment beat started."""
    rng = Random(20_265)
    for _ in range(500):
        every = timedelta(seconds=rng.choice((rng.randint(1, 10**6), rng.uniform(0.1, 100))))
        trigger = to_trigger(schedule(every, app=app), anchor=START)
        due = trigger.next_after(START + timedelta(seconds=rng.randint(0, 10**7)))
        for _ in range(STEPS):
            assert due is not None
            following = trigger.next_after(due)
            assert celerys_next(schedule(every, app=app), due) == following
            due = following


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(("lat", "lon"), [(52.52, 13.405), (-33.9, 151.2), (64.1, -21.9), (0.0, 179.9), (40.7, -74.0)])
def test_solar_events_are_due_when_celery_says(app: Celery, event: str, lat: float, lon: float) -> None:
    """To a second: ours are whole seconds, and Celery's fraction depends on where it starts to look."""
    obj: BaseSchedule = solar(event, lat, lon, app=app)  # type: ignore[arg-type]
    trigger = to_trigger(obj, anchor=START)
    due = trigger.next_after(START)
    for _ in range(400):
        assert due is not None
        following = trigger.next_after(due)
        assert following is not None
        assert abs(celerys_next(obj, due + timedelta(minutes=5)) - following) < timedelta(seconds=1), due
        due = following


@pytest.mark.parametrize(
    ("obj", "spec"),
    [
        (30, ("interval", {"seconds": 30})),
        (0.5, ("interval", {"seconds": 0.5})),
        (timedelta(minutes=2), ("interval", {"seconds": 120.0})),
        (schedule(timedelta(minutes=2)), ("interval", {"seconds": 120.0})),
        (schedule(5, relative=True), ("interval", {"seconds": 5.0})),
        (solar("sunrise", 1, 2), ("solar", {"event": "sunrise", "lat": 1, "lon": 2})),
    ],
)
def test_specs(obj: object, spec: object) -> None:
    assert to_spec(obj) == spec


@pytest.mark.parametrize(
    ("obj", "expr"),
    [
        (crontab(), "* * * * *"),
        (crontab(minute="*/15"), "*/15 * * * *"),
        (crontab(minute=0, hour=[9, 17]), "0 9,17 * * *"),
        (
            crontab(minute="50-10", hour="22-2"),
            "0,1,2,3,4,5,6,7,8,9,10,50,51,52,53,54,55,56,57,58,59 0,1,2,22,23 * * *",
        ),
        (crontab(0, 0, day_of_week="fri-sun"), "0 0 * * 0,5,6"),
        (crontab(0, 0, day_of_week="*/2"), "0 0 * * */2"),
        (crontab(0, "*/24"), "0 0 * * *"),
        (crontab("*/60"), "0 * * * *"),
        (crontab(0, 0, day_of_month="13", day_of_week="fri"), "0 0 13 * 5"),
        (crontab(0, 0, month_of_year="*/3"), "0 0 * */3 *"),
        (crontab("*/15,7"), "0,7,15,30,45 * * * *"),
    ],
)
def test_crontab_specs(obj: crontab, expr: str) -> None:
    spec = to_spec(obj, "Europe/Berlin")
    assert spec is not None
    assert build(*spec) == build("cron", {"expr": expr, "day_rule": "intersection", "tz": "Europe/Berlin"})


def test_a_star_keeps_its_class_through_a_clock_change() -> None:
    """Celery loses the whole second hour here; ours runs on."""
    trigger = to_trigger(crontab(minute="*/30"), "Europe/Berlin", anchor=START)
    due, found = datetime(2026, 10, 24, 23, 45, tzinfo=UTC), []
    for _ in range(5):
        following = trigger.next_after(due)
        assert following is not None
        due = following
        found.append(due)
    assert found == [datetime(2026, 10, 25, 0, tzinfo=UTC) + n * timedelta(minutes=30) for n in range(5)]


def test_a_crontab_with_its_own_zone_keeps_it() -> None:
    obj = crontab(0, 9)
    obj.tz = ZoneInfo("Asia/Tokyo")  # type: ignore[misc, assignment]
    assert to_trigger(obj, "UTC", anchor=START).next_after(START) == START.replace(day=2)


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"),
        (UTC, "UTC"),
        (timezone(timedelta(hours=5, minutes=45)), "UTC+05:45"),
        (timezone(timedelta(hours=-3)), "UTC-03:00"),
    ],
)
def test_zone_names(zone: str | tzinfo, name: str) -> None:
    assert zone_name(zone) == name
    assert build("daily", {"tz": name}).next_after(START)


@pytest.mark.parametrize("zone", [dateutil_tz.tzlocal(), timezone(timedelta(hours=1), "Madrid")])
def test_a_zone_without_a_name_is_refused(zone: tzinfo) -> None:
    with pytest.raises(InvalidSchedule, match=r"timezone|time zone"):
        build("daily", {"tz": zone_name(zone)})


@pytest.mark.parametrize("obj", [None, "every day", True, [], object(), crontab])
def test_what_is_no_schedule_is_refused(obj: object) -> None:
    with pytest.raises(InvalidSchedule, match="timedelta or a Celery schedule") as refused:
        to_trigger(obj, anchor=START)
    assert refused.value.field == "schedule"


@pytest.mark.parametrize("obj", [0, -5, 0.05, timedelta(0), schedule(timedelta(seconds=-1)), float("nan")])
def test_an_interval_too_short_is_refused(obj: object) -> None:
    with pytest.raises(InvalidSchedule, match=r"interval must be|must be a number"):
        to_trigger(obj, anchor=START)


def test_a_schedule_without_an_interval_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="run_every"):
        to_trigger(schedule(), anchor=START)


class EveryOther(schedule):
    """Ten seconds, then twenty, by the parity of the minute: rules that only it knows."""

    asked: int = 0

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        type(self).asked += 1
        return last_run_at + timedelta(seconds=10 if last_run_at.second % 20 == 0 else 20) - self.now()


class OnlyIsDue(BaseSchedule):
    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:  # type: ignore[override]
        return False, 90.0


class Stuck(schedule):
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return timedelta(0)


class Failing(schedule):
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        raise ZeroDivisionError("nobody home")


class Exiting(schedule):
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        raise SystemExit(5)


class Hasty(schedule):
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return timedelta(microseconds=1)


class FailingIsDue(BaseSchedule):
    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:  # type: ignore[override]
        raise ZeroDivisionError("nobody home")


class NotANumber(BaseSchedule):
    def is_due(self, last_run_at: datetime) -> tuple[bool, float]:  # type: ignore[override]
        return False, float("nan")


class Uncopyable(Failing):
    def __copy__(self) -> Uncopyable:
        raise TypeError("one of a kind")


class TooFar(schedule):
    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return timedelta.max


def walk(trigger: Trigger, t: datetime, count: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        due = trigger.next_after(t)
        assert due is not None
        t = due
        found.append((t - START) // timedelta(seconds=1))
    return found


def test_a_foreign_schedule_is_asked_from_one_due_time_to_the_next() -> None:
    obj = EveryOther(10)
    trigger = to_trigger(obj, anchor=START)
    assert isinstance(trigger, ForeignTrigger)
    assert not trigger.deterministic
    assert hash(trigger) == hash(to_trigger(EveryOther(10), anchor=START))
    assert to_spec(obj) is None
    assert walk(trigger, START, 6) == [10, 30, 50, 70, 90, 110]
    assert trigger.latest_at(START) is None
    assert trigger.latest_at(START + timedelta(seconds=49)) == START + timedelta(seconds=30)
    assert trigger.next_after(START + timedelta(seconds=31)) == START + timedelta(seconds=50)
    assert trigger.next_after(START - timedelta(days=1)) == START + timedelta(seconds=10)
    assert obj.nowfun is None  # type: ignore[attr-defined]


def test_a_foreign_chain_is_the_same_from_any_of_its_links() -> None:
    late = START + timedelta(seconds=90)
    assert walk(to_trigger(EveryOther(10), anchor=late), late, 3) == walk(
        to_trigger(EveryOther(10), anchor=START), late, 3
    )


def test_a_foreign_chain_is_not_walked_again_each_time() -> None:
    trigger = to_trigger(EveryOther(10), anchor=START)
    far = START + timedelta(days=1)
    trigger.latest_at(far)
    before = EveryOther.asked
    trigger.next_after(far)
    trigger.latest_at(far + timedelta(seconds=60))
    assert EveryOther.asked - before < 10


def test_the_due_times_of_a_foreign_schedule_are_a_tenth_of_a_second_apart_at_least() -> None:
    """One that says "in a microsecond" would have ten million due times before any of them is late."""
    trigger = to_trigger(Hasty(1), anchor=START)
    assert trigger.next_after(START) == START + timedelta(seconds=0.1)
    assert trigger.next_after(START + timedelta(seconds=0.1)) == START + timedelta(seconds=0.2)


def test_a_foreign_schedule_without_remaining_estimate_is_asked_is_due() -> None:
    assert walk(to_trigger(OnlyIsDue(), anchor=START), START, 2) == [90, 180]


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (Stuck(1), "does not move forward"),
        (Failing(1), "ZeroDivisionError: nobody home"),
        (Exiting(1), r"called sys\.exit\(5\)"),
        (FailingIsDue(), "ZeroDivisionError: nobody home"),
        (NotANumber(), "ValueError"),
        (Uncopyable(1), "TypeError: one of a kind"),
        (TooFar(1), "OverflowError"),
    ],
)
def test_a_foreign_schedule_that_fails_is_an_invalid_one(obj: BaseSchedule, words: str) -> None:
    with pytest.raises(InvalidSchedule, match=words) as refused:
        to_trigger(obj, anchor=START).next_after(START)
    assert refused.value.field == "schedule"


def test_a_foreign_schedule_is_not_asked_about_the_hosts_local_time() -> None:
    with pytest.raises(TypeError, match="naive"):
        to_trigger(EveryOther(10), anchor=START).next_after(START.replace(tzinfo=None))


def test_a_foreign_schedule_is_shown_as_what_it_is() -> None:
    trigger = to_trigger(EveryOther(10), anchor=START)
    assert trigger.describe().endswith(
        "EveryOther says: <freq: 10.00 seconds> (its own time zone and clock-change rules)."
    )
    assert trigger.to_config() == ("celery", {"repr": "<freq: 10.00 seconds>", "anchor": START.isoformat()})


class Named(crontab):
    """A subclass that changes nothing about when."""


def test_a_subclass_with_celerys_own_rules_is_converted() -> None:
    assert to_spec(Named(minute=5)) == to_spec(crontab(minute=5))
