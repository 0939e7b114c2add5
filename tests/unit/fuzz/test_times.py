"""Any text as a cron expression, any config as any type: InvalidSchedule or a trigger, and soon."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import build
from tests.support.fuzz import tried
from tests.unit.fuzz.test_stored import CONFIGS

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PIECES = (
    *"0123456789*/,-#?LWH@ ()", "59", "31", "2026", "999999999999", "jan", "sun", "fri", "L-3", "15W", "5#2", "5L",
    "H(0-9)", "*/0", "-1", "@daily", "@reboot", "\t", "\n", "\0", "é", "٣",
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
FIELD = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(lambda found: "".join(found).replace(" ", ""))
FIELDS = st.lists(FIELD, min_size=5, max_size=6).map(" ".join)


def check(schedule_type: str, config: dict[str, Any]) -> None:
    try:
        trigger = build(schedule_type, config, schedule_id="x", created_at=NOW)
    except InvalidSchedule:
        return
    due = trigger.next_after(NOW)
    assert due is None or due > NOW
    last = trigger.latest_at(NOW)
    assert last is None or last <= NOW
    assert isinstance(trigger.describe(), str)


def test_cron(full: bool) -> None:
    tried(st.one_of(TEXTS, FIELDS), lambda text: check("cron", {"expr": text}), full=full, short=500)
    both = st.tuples(FIELDS, st.sampled_from(("first", "last")))
    tried(both, lambda one: check("cron", {"expr": one[0], "seconds": one[1]}), full=full)


def test_configs(full: bool) -> None:
    tried(CONFIGS, lambda when: check(when["schedule_type"], when["schedule_config"]), full=full, short=400)
