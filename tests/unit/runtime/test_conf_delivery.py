"""Settings of deliveries: read once, wrong ones named with a fix and without a password."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_parrot import ConfigurationError, Parrot, ParrotError
from celery_parrot.dispatch.deliveries import TASK
from celery_parrot.runtime.config import Settings, load


def read(environ: dict[str, str] | None = None, **conf: Any) -> Settings:
    app = Celery("test", broker="memory://", set_as_current=False)
    app.conf.update(conf)
    return load(app, environ or {})


def test_all_of_them() -> None:
    """Recipients in a text or a list; networks and hosts together."""
    delivery = read(
        parrot_smtp_url="smtps://u:s3cret@mail.example",
        parrot_mail_from="parrot@example.com",
        parrot_alert_recipients="a@example.com, b@example.com",
        parrot_delivery_queue="mail",
        parrot_webhook_allow="hooks.internal,10.1.0.0/16",
        parrot_file_root="/srv/parrot",
    ).delivery
    assert delivery.mail is not None
    assert (delivery.mail.host, delivery.mail.port, delivery.mail.password) == ("mail.example", 465, "s3cret")
    assert delivery.alert_recipients == ("a@example.com", "b@example.com")
    assert (delivery.queue, str(delivery.file_root)) == ("mail", "/srv/parrot")
    assert delivery.allow.hosts == {"hooks.internal"}
    assert delivery.warnings == ()
    assert "s3cret" not in repr(delivery)


def test_none_of_them() -> None:
    delivery = read().delivery
    assert (delivery.mail, delivery.alert_recipients, delivery.queue, delivery.file_root) == (None, (), None, None)


def test_recipients_of_the_environment() -> None:
    settings = read({"SCHEDULER_ALERT_RECIPIENTS": "a@example.com,b@example.com"})
    assert settings.delivery.alert_recipients == ("a@example.com", "b@example.com")


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"parrot_smtp_url": "http://u:s3cret@h"}, "must be smtp://"),
        ({"parrot_smtp_url": "smtp://u:s3cret/x@h"}, "port"),
        ({"parrot_smtp_url": 25}, "must be a text"),
        ({"parrot_smtp_url": "smtp://u:s3cret@h", "parrot_mail_from": None}, "parrot_mail_from"),
        ({"parrot_mail_from": "a@b.example,c@d.example"}, "must be one mail address"),
        ({"parrot_mail_from": "nobody"}, "no mail address"),
        ({"parrot_alert_recipients": ["a@b.example", 5]}, "list of them"),
        ({"parrot_alert_recipients": "nobody"}, "no mail address"),
        ({"parrot_delivery_queue": 5}, "name of a queue"),
        ({"parrot_webhook_allow": ["http://h"]}, "neither a host name nor"),
        ({"parrot_webhook_allow": 5}, "list of texts"),
        ({"parrot_file_root": "relative"}, "whole path"),
    ],
)
def test_what_cannot_work_stops_the_start(conf: dict[str, Any], words: str) -> None:
    """The key, the value, the fix."""
    with pytest.raises(ConfigurationError) as caught:
        read(**conf)
    assert words in str(caught.value)
    assert caught.value.fix.endswith(".")
    assert "s3cret" not in str(caught.value)


def test_workers_have_the_task_where_there_is_a_coordinator() -> None:
    """Without one a fire's story ends when it is sent."""
    found = []
    for url in (None, "redis://nowhere.example/0"):
        app = Celery("test", broker="memory://", set_as_current=False)
        app.conf.parrot_redis_url = url
        Parrot(app)
        app.finalize()
        found.append(TASK in app.tasks)
    assert found == [False, True]


def test_callbacks_of_the_app() -> None:
    """May be registered once under a name that is free."""
    parrot = Parrot(Celery("test", broker="memory://", set_as_current=False))

    @parrot.callback("pager")
    def page(story: object, key: str) -> str:
        return key

    assert page(None, "k") == "k"
    parrot.callback("pager")(page)
    for name in ("pager", "webhook", " "):
        with pytest.raises(ParrotError):
            parrot.callback(name)(lambda story, key: None)


def test_an_entry_may_say_whom_to_tell() -> None:
    """Checked as in every other door, with the app's own callbacks."""
    app = Celery("test", broker="memory://", set_as_current=False)
    parrot = Parrot(app)
    parrot.callback("pager")(lambda story, key, team: None)
    told = {"callbacks": [{"type": "pager", "team": "a"}], "send_result": {"to": "a@b.example"}}
    app.conf.beat_schedule = {
        "good": {"task": "t", "schedule": 60, **told},
        "bad": {"task": "t", "schedule": 60, "failure_callbacks": [{"type": "pager"}]},
    }
    good, bad = (parrot.schedules.get(name) for name in ("good", "bad"))
    assert good.callbacks == ({"type": "pager", "team": "a"},)
    assert good.send_result == {"to": "a@b.example"}
    assert bad.state == "broken"
    assert "failure_callbacks[0].type" in (bad.broken_reason or "")
    parrot.close()
