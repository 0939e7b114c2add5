"""The cron evaluator against cronsim, and against the minute scan where cronsim lacks the grammar or is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import Trigger, build

from .expressions import Expression, change_near, expression, instant
from .walks import following, within, within_backwards
from .witness import ZONES, scan

STEPS = 10
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


class Stuck(Exception):
    """cronsim goes round in circles."""


class PatientCronSim(CronSim):
    """cronsim with an end to its patience: some expressions keep it busy for ever where midnight does not exist."""

    rounds = 0

    def advance_month(self) -> None:
        self.rounds += 1
        if self.rounds > 20_000:
            raise Stuck
        super().advance_month()


def by_cronsim(text: str, zone: str, after: datetime) -> list[datetime] | None:
    """Ten due times; None if cronsim is stuck. From a repeated hour it goes back, so it starts two days early."""
    found: list[datetime] = []
    try:
        for local in PatientCronSim(text, (after - 2 * DAY).astimezone(ZoneInfo(zone))):
            due = local.astimezone(UTC)
            if due > after:
                found.append(due)
            if len(found) == STEPS:
                break
    except Stuck:
        return None
    return found


def build_or_none(text: str, zone: str) -> Trigger | None:
    """None for a day that never comes; nothing else may be refused."""
    try:
        return build("cron", {"expr": text}, timezone=zone)
    except InvalidSchedule as refused:
        if "no such day" not in refused.reason:
            raise
        return None


def test_agrees_with_cronsim(full: bool) -> None:
    rng = Random(20_261)
    compared = disputed = 0
    cases = 20_000 if full else 1_500
    while compared < cases:
        wanted, zone = expression(rng), rng.choice(ZONES)
        after = instant(rng, zone)
        trigger = build_or_none(wanted.text, zone)
        if trigger is None:
            continue
        compared += 1
        ours, theirs = following(trigger, after, STEPS), by_cronsim(wanted.text, zone, after)
        if ours != theirs:
            disputed += 1
            settle(wanted, zone, ours, theirs)
    assert disputed <= cases / 200


def settle(wanted: Expression, zone: str, ours: list[datetime], theirs: list[datetime] | None) -> None:
    """A dispute is settled by the minute scan; it may only be about stars, on the day of a clock change."""
    found = ours if theirs is None else sorted(set(ours) ^ set(theirs))
    first = found[0]
    day = first.replace(hour=0, minute=0)
    changes = [at for year in (first.year - 1, first.year, first.year + 1) for at in change_near(zone, year)]
    about = f"{wanted.text} in {zone} at {first.isoformat()}: ours {ours}, cronsim {theirs}"
    assert wanted.named.continuous, about
    if theirs is not None:
        assert any(abs(at - day) <= 2 * DAY for at in changes), about
    begin = day - DAY
    scanned = list(scan(wanted.named, zone, begin, begin + 4 * DAY))
    end = min(begin + 4 * DAY, ours[-1] + MINUTE)
    assert [due for due in scanned if ours[0] <= due < end] == [due for due in ours if due < end], about


def test_agrees_with_the_minute_scan_beyond_cronsims_grammar(full: bool) -> None:
    rng = Random(20_262)
    compared = fired = 0
    while compared < (2_000 if full else 250):
        wanted, zone = expression(rng, beyond=1.0), rng.choice(ZONES)
        begin = instant(rng, zone).replace(second=0, microsecond=0)
        trigger = build_or_none(wanted.text, zone)
        if trigger is None:
            continue
        compared += 1
        fired += compare(trigger, wanted, zone, begin, begin + 5 * DAY)
    assert fired > compared


def test_agrees_with_the_minute_scan_on_days_of_clock_changes(full: bool) -> None:
    rng = Random(20_263)
    for _ in range(1_000 if full else 120):
        wanted, zone = expression(rng), rng.choice(ZONES)
        trigger = build_or_none(wanted.text, zone)
        changes = change_near(zone, rng.randint(1990, 2037))
        if trigger is not None and changes:
            day = rng.choice(changes)
            compare(trigger, wanted, zone, day - DAY, day + 3 * DAY)


def compare(trigger: Trigger, wanted: Expression, zone: str, begin: datetime, end: datetime) -> int:
    """Forwards and backwards over the whole span; returns how many due times it has."""
    right = list(scan(wanted.named, zone, begin, end))
    about = f"{wanted.text} in {zone} from {begin.isoformat()}"
    assert within(trigger, begin, end) == right, about
    assert within_backwards(trigger, begin, end) == right, about
    return len(right)


@pytest.mark.parametrize("text", ["0 0 * * 7/2", "0 0 * * 0/2"])
def test_a_step_from_sunday_is_the_same_under_both_its_numbers(text: str) -> None:
    """cronsim reads 7/2 as Sunday alone, since 7 is its last number."""
    found = following(build("cron", {"expr": text}), datetime(2026, 1, 3, 12, tzinfo=UTC), 5)
    assert [due.strftime("%a") for due in found] == ["Sun", "Tue", "Thu", "Sat", "Sun"]
