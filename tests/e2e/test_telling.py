"""Real beats and workers tell people: one mail a success, one alert a series of failures, whatever comes in between."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.model.state import RunState
from tests.chaos.lab import PATIENCE, Lab
from tests.chaos.ledger import open_ledger
from tests.integration.delivery.receivers import Post, free_port, mail_server
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import stays, wait_until


def run_state(lab: Lab, url: str, name: str) -> RunState:
    with open_ledger(url, lab.name) as ledger:
        return ledger.run_states([name])[name]


def about(post: Post, word: str) -> list[EmailMessage]:
    return [mail for mail in post.mails if word in str(mail["Subject"])]


@pytest.mark.timeout(150)
def test_results_and_one_alert_reach_the_mail_server_that_was_away(lab: Lab, private_redis: PrivateRedis) -> None:
    """The mail server is down at first. Two beats and two workers; one schedule succeeds twice, the other fails until
    it is disabled, with two workers ending its fires at the same moments."""
    url, port = private_redis.url(), free_port()
    entries = {
        "report": {
            "task": "chaos.tick",
            "schedule": 3.0,
            "max_fires": 2,
            "send_result": {"recipients": ["boss@example.com", "ops@example.com"], "subject": "result of $name"},
        },
        "broken": {"task": "chaos.failing", "schedule": 1.0},
    }
    lab.set_up(
        url,
        url,
        entries=entries,
        parrot_smtp_url=f"smtp://127.0.0.1:{port}",
        parrot_mail_from="parrot@example.com",
        parrot_alert_recipients="night@example.com",
        parrot_max_consecutive_failures=3,
    )
    workers = lab.worker(), lab.worker()
    beats = lab.beat(), lab.beat()
    lab.wait_ready(*beats)
    lab.wait_for_runs(2, ["report"])

    def said(status: str) -> bool:
        return run_state(lab, url, "report").last_delivery_status == status

    wait_until(lambda: said("retrying"), "the first mail to fail", PATIENCE, explain=lab.explain)
    assert {record.status for record in lab.history("report")} == {Status.SUCCESS}
    wait_until(
        lambda: run_state(lab, url, "broken").disabled_by == "failures", "to be disabled", PATIENCE, explain=lab.explain
    )
    post = Post()
    with mail_server(post, port):
        wait_until(lambda: len(about(post, "result of report")) >= 2, "two results", PATIENCE, explain=lab.explain)
        wait_until(lambda: len(post.mails) >= 3, "the alert", PATIENCE, explain=lab.explain)
        wait_until(lambda: said("delivered"), "the report of it", PATIENCE, explain=lab.explain)
        ran = len(lab.journal.of("broken"))
        stays(lambda: len(lab.journal.of("broken")) == ran and len(post.mails) == 3, "nothing more", 2.5)
    assert [sorted(some) for some in post.recipients].count(["boss@example.com", "ops@example.com"]) == 2
    (alert,) = [mail for mail in post.mails if "result of" not in str(mail["Subject"])]
    assert alert["To"] == "night@example.com"
    text = alert.get_content()
    assert "ValueError: this task fails on purpose" in text
    assert "resume broken" in text
    assert ran >= 3
    assert lab.logs(beats).count("[schedule-disabled]") == 1
    # It stays so over a restart of every beat.
    for beat in beats:
        assert beat.terminate() == 0
    again = lab.beat()
    lab.wait_ready(again)
    stays(lambda: len(lab.journal.of("broken")) == ran, "broken not to run", 2.5)
    lab.stays_alive(again, *workers)
