"""Webhooks, to a real server, verified by the public library."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from standardwebhooks import Webhook

from celery_parrot.clock import SystemClock
from celery_parrot.delivery import AllowList, Job, Means, deliver
from celery_parrot.protocols import CallbackReport, Parcel
from tests.integration.delivery.receivers import CERTIFICATE, Hooks, certified, free_port, raw_server, web_server
from tests.support.waiting import monotonic
from tests.unit.delivery.stories import FIRE, parcel

SECRETS = ["whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2)]


def send(
    url: str, *, allow: Sequence[str] = ("127.0.0.1",), story: Parcel | None = None, **spec: Any
) -> CallbackReport:
    resolve = spec.pop("resolve", None)
    means = Means(clock=SystemClock(), allow=AllowList.of(allow), **({"resolve": resolve} if resolve else {}))
    job = Job(parcel=story or parcel(), callbacks=[{"type": "webhook", "url": url, **spec}])
    (report,) = deliver(job, means, last=False).callbacks
    return report


def test_the_public_library_verifies_the_signature() -> None:
    """Under each of two secrets, while one takes the place of the other; the id is the idempotency key."""
    hooks = Hooks()
    with web_server(hooks) as port:
        report = send(
            f"http://127.0.0.1:{port}/in?x=1", secret=SECRETS, headers={"X-Own": "yes"}, story=parcel(output="é😀")
        )
    assert report.status == "delivered"
    ((path, headers, body),) = hooks.requests
    for secret in SECRETS:
        told = Webhook(secret).verify(body, dict(headers))
        assert told["type"] == "fire.success"
        assert Parcel.from_json(told["data"]) == parcel(output="é😀")
    assert path == "/in?x=1"
    assert headers["webhook-id"] == f"{FIRE}:success:0"
    assert (headers["x-own"], headers["content-type"], headers["host"]) == (
        "yes",
        "application/json",
        f"127.0.0.1:{port}",
    )


def test_a_second_delivery_is_the_same_message() -> None:
    """Id and body; without a secret it is not signed."""
    hooks = Hooks()
    with web_server(hooks) as port:
        for _ in range(2):
            send(f"http://127.0.0.1:{port}")
    (first, second) = hooks.requests
    assert (first[1]["webhook-id"], first[2]) == (second[1]["webhook-id"], second[2])
    assert "webhook-signature" not in first[1]


@pytest.mark.parametrize(
    ("status", "after", "words"),
    [
        (204, "delivered", ""),
        (302, "retrying", "not followed"),
        (400, "retrying", "answered 400"),
        (410, "failed", "answered 410"),
        (503, "retrying", "answered 503"),
    ],
)
def test_what_an_answer_means(status: int, after: str, words: str) -> None:
    """A redirect leads nowhere."""
    hooks = Hooks(status=status)
    with web_server(hooks) as port:
        hooks.headers = {"Location": f"http://127.0.0.1:{port}/elsewhere"}
        report = send(f"http://127.0.0.1:{port}/s3cret-path")
    assert report.status == after
    assert words in report.error
    assert [path for path, *_ in hooks.requests] == ["/s3cret-path"]
    assert "s3cret" not in f"{report.callback} {report.error}"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "10.0.0.1", "192.168.1.1", "::ffff:127.0.0.1"]
)
def test_a_name_that_resolves_to_a_private_address_is_refused(address: str) -> None:
    """Before anything is sent."""
    hooks = Hooks()
    with web_server(hooks) as port:
        report = send(f"http://hooks.example:{port}/", allow=(), resolve=lambda *_: [address])
    assert report.status == "failed"
    assert "not public" in report.error
    assert hooks.requests == []


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """The name is resolved once; asked again, it would answer something else."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    hooks = Hooks()
    with web_server(hooks) as port:
        report = send(f"http://hooks.example:{port}/", resolve=lambda *_: next(answers))
    assert report.status == "delivered"
    assert hooks.requests[0][1]["host"] == f"hooks.example:{port}"
    assert next(answers) == ["127.0.0.2"]


def test_a_receiver_must_prove_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a certificate that is trusted, for the name in the URL: the address it was reached by does not count."""
    hooks = Hooks()
    with web_server(hooks, certified()) as port:
        refused = send(f"https://hooks.example:{port}/", resolve=lambda *_: ["127.0.0.1"])
        assert "CERTIFICATE_VERIFY_FAILED" in refused.error
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        other = send(f"https://other.example:{port}/", resolve=lambda *_: ["127.0.0.1"])
        assert "other.example" in other.error
        assert send(f"https://hooks.example:{port}/", resolve=lambda *_: ["127.0.0.1"]).status == "delivered"
    assert len(hooks.requests) == 1


def _silent(connection: socket.socket, stop: threading.Event) -> None:
    stop.wait()


def _drips(connection: socket.socket, stop: threading.Event) -> None:
    while not stop.wait(0.05):
        connection.sendall(b"H")


def _continues(connection: socket.socket, stop: threading.Event) -> None:
    while not stop.wait(0.05):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def _floods(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
    while not stop.is_set():
        connection.sendall(b"x" * 65536)


@pytest.mark.parametrize("handle", [_silent, _drips, _continues])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_slow_receiver_holds_nobody_longer_than_the_timeout(handle: Any, scheme: str) -> None:
    """Though every byte comes in time; in the middle of a TLS handshake too."""
    started = monotonic()
    with raw_server(handle) as port:
        report = send(f"{scheme}://127.0.0.1:{port}/", timeout=0.3)
    assert monotonic() - started < 3
    assert report.status == "retrying"
    assert report.error == "no answer within 0.3 s" or "SSLError" in report.error


def test_a_slow_resolver_holds_nobody_longer_than_the_timeout() -> None:
    stop = threading.Event()

    def slow(host: str, port: int) -> list[str]:
        stop.wait()
        return []

    started = monotonic()
    report = send("http://hooks.example/", timeout=0.3, resolve=slow)
    stop.set()
    assert monotonic() - started < 3
    assert "within 0.3 s" in report.error


def test_the_body_of_an_answer_is_not_read() -> None:
    """However long it is."""
    with raw_server(_floods) as port:
        assert send(f"http://127.0.0.1:{port}/").status == "delivered"


def test_nobody_there_is_tried_again() -> None:
    report = send(f"http://127.0.0.1:{free_port()}/")
    assert report.status == "retrying"
    assert "no connection" in report.error


def test_the_body_is_json_of_text_as_it_is() -> None:
    hooks = Hooks()
    with web_server(hooks) as port:
        send(f"http://127.0.0.1:{port}/", story=parcel(output="\ud800 é"))
    assert json.loads(hooks.requests[0][2])["data"]["output"] == "? é"
