"""Callbacks and result mails are checked when a schedule is saved, and what is wrong is said by name."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from celery_parrot.delivery import check_all, check_callbacks, check_send_result
from celery_parrot.errors import InvalidSchedule

SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
GOOD: list[dict[str, Any]] = [
    {"type": "task", "task": "app.after"},
    {"type": "task", "task": "app.after", "args": [1], "kwargs": {"a": 2}, "options": {"queue": "q", "headers": {}}},
    {"type": "webhook", "url": "https://example.com/hook?x=1"},
    {"type": "webhook", "url": "http://[::1]:80/", "secret": [SECRET, SECRET], "timeout": 5, "headers": {"X-A": "b"}},
    {"type": "email", "to": "a@example.com, b@example.com", "subject": "$name costs $$5", "include_result": False},
    {"type": "email", "to": ["a@example.com"], "message": "${output}\n\n$error"},
    {"type": "notify", "url": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general"},
    {"type": "notify", "url": ["ntfy://topic", "mailto://u:p@example.com"], "title": "$name"},
    {"type": "file", "path": "reports/$name/$due_at.json", "content": "$output"},
]


@pytest.mark.parametrize("spec", GOOD, ids=lambda spec: spec["type"])
def test_what_can_be_delivered_is_taken(spec: dict[str, Any]) -> None:
    """Under every field, with and without a name of its own."""
    check_all({"callbacks": [spec], "failure_callbacks": (spec,), "missed_callbacks": [{**spec, "name": "tell ops"}]})


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({}, "type", "must be one of task, webhook"),
        ({"type": "webhok", "url": "https://a.example"}, "type", "did you mean 'webhook'?"),
        ({"type": "webhook"}, "url", "is required"),
        ({"type": "webhook", "url": "ftp://a.example"}, "url", "http or https"),
        ({"type": "webhook", "url": "https:///x"}, "url", "with a host"),
        ({"type": "webhook", "url": "https://u:s3cret@a.example"}, "url", "user or password"),
        ({"type": "webhook", "url": "https://a.example:99999/"}, "url", "is no URL"),
        ({"type": "webhook", "url": "https://a.example/\r\nX: y"}, "url", "control characters"),
        ({"type": "webhook", "url": "https://a.example/a b"}, "url", "space"),
        ({"type": "webhook", "url": "https://a.example", "urll": 1}, "urll", "did you mean 'url'?"),
        ({"type": "webhook", "url": "https://a.example", "secret": "s3cret"}, "secret", "whsec_"),
        ({"type": "webhook", "url": "https://a.example", "secret": "whsec_c2hvcnQ="}, "secret", "24 to 64 bytes"),
        ({"type": "webhook", "url": "https://a.example", "timeout": 61}, "timeout", "at most 60"),
        ({"type": "webhook", "url": "https://a.example", "timeout": True}, "timeout", "number of seconds"),
        ({"type": "webhook", "url": "https://a.example", "headers": {"Host": "x"}}, "headers", "'Host'"),
        ({"type": "webhook", "url": "https://a.example", "headers": {"webhook-id": "x"}}, "headers", "'webhook-id'"),
        ({"type": "webhook", "url": "https://a.example", "headers": {"X": "a\r\nb"}}, "headers", "printable"),
        ({"type": "email"}, "to", "is required"),
        ({"type": "email", "to": "nobody"}, "to", "no mail address"),
        ({"type": "email", "to": "a@b.example\r\nBcc: c@d.example"}, "to", "no mail address"),
        ({"type": "email", "to": "Ann <a@b.example>"}, "to", "no mail address"),
        ({"type": "email", "to": "a@b.example", "subject": "$nam"}, "subject", "did you mean $name?"),
        ({"type": "email", "to": "a@b.example", "message": "costs $5"}, "message", "$$ for a dollar"),
        ({"type": "email", "to": "a@b.example", "include_result": "yes"}, "include_result", "true or false"),
        ({"type": "task"}, "task", "is required"),
        ({"type": "task", "task": "t", "options": {"task_id": "x"}}, "task_id", "is not known"),
        ({"type": "task", "task": "t", "options": {"headers": {"parrot": {}}}}, "options", "belongs to fires"),
        ({"type": "task", "task": "t", "kwargs": {"a": object()}}, "kwargs", "is not JSON"),
        ({"type": "notify"}, "url", "a list of texts"),
        ({"type": "notify", "url": "json://169.254.169.254/latest"}, "url", "of type webhook"),
        ({"type": "notify", "url": "https://internal.example/x"}, "url", "of type webhook"),
        ({"type": "notify", "url": "slakc://token"}, "url", "Apprise"),
        ({"type": "file"}, "path", "is required"),
        ({"type": "file", "path": "/etc/passwd"}, "path", "below parrot_file_root"),
        ({"type": "file", "path": "a/../../b"}, "path", "must not contain .."),
        ({"type": "file", "path": "a//b"}, "path", "empty part"),
        ({"type": "file", "path": "a\\b"}, "path", "backslash"),
        ({"type": "file", "path": "$nmae"}, "path", "did you mean $name?"),
        ({"type": "file", "path": "a", "name": "x\ny"}, "name", "control characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_delivered_is_refused_by_name(spec: dict[str, Any], field: str, words: str) -> None:
    """The place, the field and the fix; no secret."""
    with pytest.raises(InvalidSchedule) as caught:
        check_callbacks("callbacks", [GOOD[0], spec])
    assert caught.value.field.startswith("callbacks[1]")
    assert caught.value.field.endswith(f".{field}")
    assert words in str(caught.value)
    for secret in ("s3cret", "token", "c2hvcnQ"):
        assert secret not in str(caught.value)


def test_a_text_is_a_callback_that_needs_nothing_else() -> None:
    check_callbacks("callbacks", ["page"], {"page": lambda story, key: None})
    with pytest.raises(InvalidSchedule, match=r"callbacks\[0\]\.task"):
        check_callbacks("callbacks", ["task"])


@pytest.mark.parametrize("value", ["webhook", {"type": "task"}, [1], [None], [[]], [GOOD[0]] * 21])
def test_what_is_no_list_of_callbacks_is_refused(value: object) -> None:
    """None and an empty list are no callbacks."""
    check_all({"callbacks": [], "failure_callbacks": None})
    with pytest.raises(InvalidSchedule, match="callbacks"):
        check_callbacks("callbacks", value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"recipients": "a@example.com", "to": "b@example.com"}, "give one of the two"),
        ({"subject": "x"}, "is required"),
        ({"recipients": [], "to": ""}, "is required"),
        ({"to": "a@example.com", "recipient": 1}, "did you mean 'recipients'?"),
        ({"to": ["a@example.com", 5]}, "list of them"),
        ("a@example.com", "must be an object"),
    ],
)
def test_a_result_mail_that_cannot_be_sent_is_refused(value: object, words: str) -> None:
    """One with ``to`` or ``recipients`` is taken, and none."""
    for good in (None, {}, {"to": "a@example.com"}, {"recipients": ["a@example.com"], "message": "$output"}):
        check_send_result(good)
    with pytest.raises(InvalidSchedule, match="send_result") as caught:
        check_send_result(value)
    assert words in str(caught.value)


def test_callbacks_of_the_app_are_checked_against_their_function() -> None:
    """What it takes besides the story and the key."""

    def page(story: object, key: str, *, team: str) -> None: ...

    check_callbacks("callbacks", [{"type": "page", "team": "night"}], {"page": page})
    with pytest.raises(InvalidSchedule, match="missing a required argument: 'team'"):
        check_callbacks("callbacks", [{"type": "page"}], {"page": page})
    with pytest.raises(InvalidSchedule, match="unexpected keyword argument 'taem'"):
        check_callbacks("callbacks", [{"type": "page", "team": "a", "taem": "b"}], {"page": page})
    with pytest.raises(InvalidSchedule, match="did you mean 'page'"):
        check_callbacks("callbacks", [{"type": "pgae"}], {"page": page})
