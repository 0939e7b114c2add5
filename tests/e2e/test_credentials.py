"""No password is shown where people look."""

from __future__ import annotations

import pytest

from tests.chaos.lab import APP, Lab
from tests.support.redis_server import PrivateRedis

SECRET = "hunter2-hunter2"


@pytest.mark.timeout(120)
def test_report_and_banner_mask_credentials(lab: Lab, private_redis: PrivateRedis) -> None:
    """``celery report``, the beat's banner and its whole log at debug level name the server and hide the password; an
    ACL user is enough to coordinate."""
    with private_redis.client() as admin:
        admin.acl_setuser(
            "parrot", enabled=True, passwords=[f"+{SECRET}"], keys=["*"], channels=["*"], commands=["+@all"]
        )
    url = f"redis://parrot:{SECRET}@{private_redis.host}:{private_redis.port}/0"
    lab.set_up(url, url, ticks=2)
    report = lab.procs.celery("report", APP, "report", env=lab.environment)
    beat = lab.procs.beat(APP, level="debug", env=lab.environment)
    lab.worker()
    lab.wait_ready(beat)
    lab.wait_for_runs(2)
    assert report.wait(60) == 0, report.tail()
    assert "parrot_redis_url" in report.text()
    for proc in (report, beat):
        assert SECRET not in proc.text(), "\n".join(line for line in proc.text().splitlines() if SECRET in line)
    assert str(private_redis.port) in beat.text()
