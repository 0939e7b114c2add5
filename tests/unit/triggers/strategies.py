"""Hypothesis strategies: triggers of every type, and instants that like clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import strategies as st

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import Trigger, build

from .expressions import change_near, expression
from .witness import ZONES

CREATED = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
zones = st.sampled_from(ZONES)


@st.composite
def instants(draw: st.DrawFn) -> datetime:
    """Any instant of 1990 to 2037, every other one within a day of a clock change of some zone."""
    if draw(st.booleans()):
        changes = change_near(draw(zones), draw(st.integers(1990, 2037)))
        if changes:
            return draw(st.sampled_from(changes)) + timedelta(microseconds=draw(st.integers(0, 2 * 86_400 * 10**6)))
    return draw(st.datetimes(datetime(1990, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001


@st.composite
def crons(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    rng = Random(draw(st.integers(0, 2**32)))
    return "cron", {"expr": expression(rng, beyond=0.3).text}


_time = {"hour": st.integers(0, 23), "minute": st.integers(0, 59), "second": st.integers(0, 59)}
_window = st.tuples(st.integers(0, 23), st.integers(1, 24), st.integers(1, 40)).filter(lambda w: w[0] != w[1])
_rules = st.sampled_from(
    (
        *("FREQ=DAILY;INTERVAL=3", "FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=2;BYMINUTE=30", "FREQ=MONTHLY;BYDAY=-1FR"),
        *("FREQ=YEARLY", "FREQ=HOURLY;INTERVAL=5", "FREQ=MINUTELY;INTERVAL=7;BYHOUR=1,2", "FREQ=DAILY;COUNT=500"),
        *(
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "FREQ=DAILY;UNTIL=20300101T000000Z",
            "FREQ=YEARLY;BYWEEKNO=1",
        ),
    )
)
_events = st.sampled_from(("sunrise", "solar_noon", "dusk_astronomical", "dawn_civil"))
_crontab = {
    "day_rule": st.just("intersection"),
    "minute": st.sampled_from(("*/7", "3,40")),
    "hour": st.sampled_from(("2", "*")),
}

configs = st.one_of(
    crons(),
    crons(),
    st.tuples(
        st.just("cron"),
        st.fixed_dictionaries({"expr": st.sampled_from(("H H * * *", "H/7 * * * *", "H(0-9) 2 * * H"))}),
    ),
    st.tuples(
        st.just("cron"),
        st.fixed_dictionaries(
            {"expr": st.sampled_from(("*/7 30 2 * * *", "5 0 1 * * sun")), "seconds": st.just("first")}
        ),
    ),
    st.tuples(st.just("crontab"), st.fixed_dictionaries({**_crontab, "day_of_week": st.sampled_from(("1-5", "*/2"))})),
    st.tuples(st.just("interval"), st.fixed_dictionaries({"seconds": st.integers(1, 10**7)})),
    st.tuples(st.just("interval"), st.fixed_dictionaries({"hours": st.floats(0.01, 1000), "offset": st.floats(0, 30)})),
    st.tuples(st.just("every_n_hours"), st.fixed_dictionaries({"n": st.integers(1, 100)})),
    st.tuples(st.just("daily"), st.fixed_dictionaries(_time)),
    st.tuples(
        st.just("weekly"), st.fixed_dictionaries({**_time, "day_of_week": st.lists(st.integers(0, 7), min_size=1)})
    ),
    st.tuples(
        st.just("monthly"),
        st.fixed_dictionaries(
            {
                **_time,
                "day": st.lists(st.sampled_from((-1, *range(1, 32))), min_size=1, max_size=4),
                "on_short_month": st.sampled_from(("last", "skip")),
            }
        ),
    ),
    st.tuples(st.just("once"), st.fixed_dictionaries({"run_date": instants().map(datetime.isoformat)})),
    st.tuples(st.just("relative_delay"), st.fixed_dictionaries({"delay": st.integers(0, 10**8)})),
    _window.map(lambda w: ("random_within_window", {"start_hour": w[0], "end_hour": w[1], "fires_per_day": w[2]})),
    st.tuples(
        st.just("solar"),
        st.fixed_dictionaries({"event": _events, "lat": st.floats(-80, 80), "lon": st.floats(-180, 180)}),
    ),
    st.tuples(st.just("rrule"), st.fixed_dictionaries({"rule": _rules, "dtstart": st.just("2020-01-31T02:30:00")})),
)


@st.composite
def triggers(draw: st.DrawFn) -> Trigger:
    """A trigger of any type, in any zone, under any policy."""
    schedule_type, config = draw(configs)
    policy = {
        "tz": draw(zones),
        "dst_gap": draw(st.sampled_from(("next_valid", "skip"))),
        "dst_fold": draw(st.sampled_from(("first", "last", "both"))),
    }
    try:
        return build(schedule_type, {**config, **policy}, schedule_id=draw(st.text(max_size=8)), created_at=CREATED)
    except InvalidSchedule:
        return build("daily", {"hour": 2, "minute": 30, **policy})
