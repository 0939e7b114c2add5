"""Mails, through a real server."""

from __future__ import annotations

import re
import socket
import threading
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.clock import SystemClock
from celery_parrot.delivery import Job, MailServer, Means, deliver, mailserver
from celery_parrot.protocols import About, DeliveryReport, Parcel
from tests.integration.delivery.receivers import CERTIFICATE, Post, certified, free_port, mail_server, raw_server
from tests.support.waiting import monotonic
from tests.unit.delivery.stories import parcel

RECIPIENTS = ["boss@example.com", "ops@example.com"]


def means(port: int, scheme: str = "smtp", user: str = "") -> Means:
    return Means(
        clock=SystemClock(),
        mail=MailServer.of(f"{scheme}://{user}127.0.0.1:{port}"),
        mail_from="parrot@example.com",
        alert_recipients=("oncall@example.com", "boss@example.com"),
        resume="celery -A shop parrot resume",
    )


def sent(port: int, spec: dict[str, Any], story: Parcel | None = None) -> DeliveryReport:
    job = Job(parcel=story or parcel(), send_result={"recipients": RECIPIENTS, **spec})
    return deliver(job, means(port), last=False)


def test_one_mail_to_all_recipients() -> None:
    """With the result in it, and an id that a repetition keeps."""
    post = Post()
    with mail_server(post) as port:
        for _ in range(2):
            assert sent(port, {"subject": "$name é: $status", "message": "Hello 😀"}).status == "delivered"
    assert post.recipients == [RECIPIENTS, RECIPIENTS]
    mail, again = post.mails
    assert (mail["To"], mail["From"]) == (", ".join(RECIPIENTS), "parrot@example.com")
    assert mail["Subject"] == "nightly é: success"
    assert mail.get_content().replace("\r\n", "\n") == "Hello 😀\n\n42 rows\n"
    assert mail["Message-ID"] == again["Message-ID"]
    assert mail["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize(("length", "attached"), [(2000, False), (2001, True), (4096, True)])
def test_a_long_result_is_attached(length: int, attached: bool) -> None:
    """From 2001 characters on; not at all where it is not wanted."""
    post = Post()
    with mail_server(post) as port:
        sent(port, {}, parcel(output="é" * length))
        sent(port, {"include_result": False}, parcel(output="é" * length))
    mail, bare = post.mails
    assert "é" not in bare.as_string()
    assert not list(bare.iter_attachments())
    files = list(mail.iter_attachments())
    assert [one.get_filename() for one in files] == (["result.txt"] if attached else [])
    if attached:
        assert files[0].get_content().strip() == "é" * length
    else:
        assert "é" * length in mail.get_content()


def test_no_value_makes_a_header() -> None:
    """Line ends in a name become spaces."""
    post = Post()
    with mail_server(post) as port:
        report = sent(port, {"subject": "$name"}, parcel(name="a\r\nBcc: evil@example.com\n\nbody\u2028\0"))
    assert report.status == "delivered"
    assert post.recipients == [RECIPIENTS]
    assert post.mails[0]["Bcc"] is None
    assert post.mails[0]["Subject"] == "a Bcc: evil@example.com body"


@pytest.mark.parametrize("hidden", ["?q?x=0d=0aBcc:_evil@example.com", "?b?eA0KDQpCY2M6IGV2aWxAZXhhbXBsZS5jb20="])
def test_no_encoded_word_makes_a_header(hidden: str) -> None:
    """A line end that a name hides in an encoded word stays hidden, and in the subject."""
    post = Post()
    with mail_server(post) as port:
        report = sent(port, {"subject": "$name"}, parcel(name=f"a =?utf-8{hidden}?= b"))
    assert report.status == "delivered"
    (mail,) = post.mails
    assert mail["Bcc"] is None
    assert mail["Subject"] == f"a =?utf-8{hidden}?= b".replace("=?", "= ?")
    assert mail["Message-ID"]


def test_the_alert_says_what_to_do() -> None:
    """Schedule, last error, since when, how many, and the command, as a shell takes it."""
    story = parcel(About.ALERT, name="night ly", failures=3, failing_since=parcel().due_at, error="ValueError: no rows")
    post = Post()
    with mail_server(post) as port:
        report = deliver(Job(parcel=story), means(port), last=False)
    assert (report.status, [one.callback for one in report.callbacks]) == ("delivered", ["alert"])
    assert post.recipients == [["oncall@example.com", "boss@example.com"]]
    text = post.mails[0].get_content()
    for part in ("night ly", "ValueError: no rows", "2026-05-01T09:00:00+00:00", "3 failures in a row"):
        assert part in text
    assert "celery -A shop parrot resume 'night ly'" in text


def test_a_server_that_is_away_gets_it_later() -> None:
    """What failed is tried again, and says why in the meantime."""
    post, port = Post(), free_port()
    job = Job(parcel=parcel(), send_result={"to": RECIPIENTS})
    first = deliver(job, means(port), last=False)
    assert first.status == "retrying"
    assert "cannot be reached" in first.callbacks[0].error
    with mail_server(post, port):
        again = Job(parcel=job.parcel, send_result=job.send_result, before=first.callbacks, tries=2)
        second = deliver(again, means(port), last=False)
    assert (second.status, second.callbacks[0].tries, second.callbacks[0].error) == ("delivered", 2, "")
    assert post.recipients == [RECIPIENTS]


def test_who_is_unknown_there_is_told_and_the_others_get_one_mail() -> None:
    """A second try would be their second mail."""
    post = Post(refuse=frozenset({"ops@example.com"}))
    with mail_server(post) as port:
        report = sent(port, {})
    assert post.recipients == [["boss@example.com"]]
    assert report.status == "failed"
    assert "not ops@example.com: 550 no such user" in report.callbacks[0].error


def test_a_password_is_used_and_never_shown() -> None:
    """Percent-encoded in the URL."""
    post = Post()
    with mail_server(post) as port:
        used = means(port, user="me:p%40ss%2Fw0rd@")
        assert deliver(Job(parcel=parcel(), send_result={"to": RECIPIENTS}), used, last=False).status == "delivered"
    assert post.logins == [b"me:p@ss/w0rd"]
    assert "w0rd" not in repr(used)


def test_a_server_that_drips_is_left_after_the_time_for_one_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte comes before a timeout of its own would end."""
    monkeypatch.setattr(mailserver, "TIMEOUT", 0.4)

    def drip(connection: Any, stop: threading.Event) -> None:
        while not stop.wait(0.05):
            connection.sendall(b"220-")

    started = monotonic()
    with raw_server(drip) as port:
        report = sent(port, {})
    assert monotonic() - started < 3
    assert report.status == "retrying"
    assert "0.4 s" in report.callbacks[0].error


def test_over_a_network_nothing_goes_in_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the URL says that it may. The loopback stands for the network here."""
    monkeypatch.setattr(mailserver, "_is_loopback", lambda address: False)
    post = Post()
    with mail_server(post) as port:
        refused = sent(port, {})
        assert "offers no encryption" in refused.callbacks[0].error
        assert post.mails == []
        plain = Means(
            clock=SystemClock(), mail=MailServer.of(f"smtp://127.0.0.1:{port}?plain=1"), mail_from="a@b.example"
        )
        assert deliver(Job(parcel=parcel(), send_result={"to": RECIPIENTS}), plain, last=False).status == "delivered"


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_a_server_elsewhere_must_prove_its_name(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """By a certificate that is trusted, for the name that was asked for; on this machine any will do."""
    post, context = Post(), certified()
    options: dict[str, Any] = {"encrypted": context} if scheme == "smtps" else {"tls_context": context}
    job = Job(parcel=parcel(), send_result={"to": RECIPIENTS})
    with mail_server(post, **options) as port:
        assert deliver(job, means(port, scheme), last=False).status == "delivered"
        monkeypatch.setattr(mailserver, "_is_loopback", lambda address: False)
        refused = deliver(job, means(port, scheme), last=False)
        assert "certificate" in refused.callbacks[0].error.lower()
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert "mismatch" in deliver(job, means(port, scheme), last=False).callbacks[0].error
        monkeypatch.setattr(socket, "getaddrinfo", _everything_here)
        named = replace(means(port), mail=MailServer.of(f"{scheme}://mail.example:{port}"))
        assert deliver(job, named, last=False).status == "delivered"
    assert post.recipients == [RECIPIENTS, RECIPIENTS]


def _everything_here(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://h", "must be smtp://"),
        ("smtp://", "must be smtp://"),
        ("smtp://h:99999", "port"),
        ("smtp://u:p/s3cret@h", "port"),
        ("smtp://h/s3cret", "behind the host"),
        ("smtp://h?palin=1", "unknown option 'palin'"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        MailServer.of(url)
    assert "s3cret" not in str(caught.value)


def test_ports_are_those_of_the_scheme() -> None:
    ports = [MailServer.of(url).port for url in ("smtp://h", "smtp://u:p@h", "smtps://h", "smtp://h:2525")]
    assert ports == [25, 587, 465, 2525]
