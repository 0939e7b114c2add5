"""A setting that cannot work: one clear error at start-up that names key, value and fix."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.lab import APP, Lab

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown coordination": ({"parrot_coordination": "zookeeper"}, "parrot_coordination", "zookeeper"),
    "TTL shorter than the longest grace": ({"parrot_fire_lock_ttl": 100}, "parrot_fire_lock_ttl", "100"),
    "a kind without a task": ({"parrot_kinds": {"agent": {"queue": "agents"}}}, "parrot_kinds", "agent"),
    "limits without coordination": (
        {"parrot_coordination": "none", "parrot_max_concurrent": 3}, "parrot_max_concurrent", "3",
    ),
    "a group without coordination": (
        {"parrot_coordination": "none", "parrot_exclusion_groups": {"gpu": 2}}, "parrot_exclusion_groups", "gpu",
    ),
    "a timer that is no time": ({"parrot_lease_ttl": -1}, "parrot_lease_ttl", "-1"),
    "no Redis": ({"parrot_redis_url": "http://nowhere"}, "parrot_redis_url", "http://nowhere"),
}  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("what", sorted(BAD))
def test_a_beat_refuses_to_start(lab: Lab, redis_url: str, what: str) -> None:
    """Exit code not 0, the key and the value named, once, and no traceback to read it out of."""
    conf, key, value = BAD[what]
    lab.set_up(redis_url, redis_url, ticks=1, **conf)
    beat = lab.beat()
    assert beat.wait(30) != 0, beat.tail()
    _assert_one_clear_error(beat.text(), key, value)


@pytest.mark.timeout(120)
def test_a_worker_refuses_to_start(lab: Lab, redis_url: str) -> None:
    """With ``Parrot(app)`` a worker is as strict as a beat."""
    lab.set_up(redis_url, redis_url, parrot_coordination="zookeeper")
    worker = lab.worker()
    assert worker.wait(30) != 0, worker.tail()
    _assert_one_clear_error(worker.text(), "parrot_coordination", "zookeeper")


@pytest.mark.timeout(120)
def test_other_commands_still_work(lab: Lab, redis_url: str) -> None:
    """A bad setting keeps nobody from looking at the app: ``celery report`` works."""
    lab.set_up(redis_url, redis_url, parrot_coordination="zookeeper")
    report = lab.procs.celery("report", APP, "report", env=lab.environment)
    assert report.wait(60) == 0, report.tail()
    assert "zookeeper" in report.text()


def _assert_one_clear_error(text: str, key: str, value: str) -> None:
    lines = [line for line in text.splitlines() if key in line and not line.startswith("    . ")]  # less the banner
    assert len(lines) == 1, f"one line is to name {key}:\n{text}"
    assert value in lines[0]
    assert len(lines[0]) > len(key) + len(value) + 20, f"and say how to mend it:\n{text}"
    assert "Traceback" not in text, text
