"""Who may read and who may write, asked over HTTP."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterator
from select import select
from typing import Any

import flower.urls
import pytest
from celery import Celery
from tornado.web import create_signed_value

from celery_parrot.flower.bridge import put_in_front
from celery_parrot.flower.desk import THREADS
from tests.integration.flower import probes
from tests.integration.flower.probes import SECRET
from tests.integration.flower.served import Served
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

Start = Callable[..., Served]

WRITES = "/parrot/probe/writes"
READS = "/parrot/api/fires"
STORED = "/parrot/api/schedules?store=redis"
PAGE = "/parrot/schedules"
AT_HAND = [f"/parrot/api/{name}" for name in ("kinds", "timeline", "backfills", "schema", "openapi.json")]
XSRF = "0123456789abcdef0123456789abcdef"
BASIC = {"basic_auth": ["ann:secret"]}
OAUTH = {"auth": ".*@example.com"}


@pytest.fixture(autouse=True)
def _probed() -> Iterator[None]:
    put_in_front(probes.ROUTES)
    yield
    for route in probes.ROUTES:
        flower.urls.handlers.remove(route)


def basic(credentials: str) -> str:
    return f"Basic {b64encode(credentials.encode()).decode()}"


def cookie(email: str) -> str:
    return f"user={create_signed_value('of the tests', 'user', email).decode()}; _xsrf={XSRF}"


def test_without_authentication_anybody_reads_and_nobody_writes(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Flower shows its own pages; writes need its switch for an API without authentication."""
    served = start()
    assert served.get(READS).status == served.get(PAGE).status == 200
    refused = served.post(WRITES)
    assert (refused.status, refused.error["type"]) == (403, "read_only")
    assert "--basic_auth" in refused.error["message"]
    assert "FLOWER_UNAUTHENTICATED_API" in refused.error["message"]
    monkeypatch.setenv("FLOWER_UNAUTHENTICATED_API", "1")
    assert served.post(WRITES).json == {"actor": ""}


def test_no_site_may_read_across_origins(start: Start) -> None:
    """Where nobody authenticates, any site that a person visits could read the schedules otherwise."""
    answer = start().get(READS, Origin="http://elsewhere")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "header", [basic("ann:wrong"), basic("bob:secret"), basic("ann:sécret"), "Basic ann:secret", "Basic !", "Bearer x"]
)
def test_basic_auth_refuses_whoever_has_no_password(start: Start, header: str) -> None:
    """With the 401 that has a browser ask for one."""
    served = start(**BASIC)
    for method, path in (("GET", READS), ("GET", "/parrot/api/events"), ("POST", WRITES)):
        answer = served.ask(method, path, Authorization=header)
        assert (answer.status, answer.error["type"]) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
    assert served.get(PAGE, Authorization=header).status == 401


def test_basic_auth_names_who_asks(start: Start) -> None:
    """The user name is the actor of what is done."""
    served = start(**BASIC)
    assert served.get(READS).status == served.get(PAGE).status == 401
    served.headers["Authorization"] = basic("ann:secret")
    assert served.get(READS).status == served.get(PAGE).status == 200
    assert served.post(WRITES).json == {"actor": "ann"}


def test_oauth_leads_a_page_to_the_login_and_refuses_programs(start: Start) -> None:
    """And takes the signed cookie of an address that matches."""
    served = start(**OAUTH)
    page = served.get(f"{PAGE}?text=a")
    assert (page.status, page.headers["Location"]) == (302, "/login?next=%2Fparrot%2Fschedules%3Ftext%3Da")
    assert served.get(READS).error["type"] == "unauthenticated"
    assert served.get(READS, Cookie=cookie("eve@example.org")).status == 401
    assert served.get(READS, Cookie="user=ann@example.com").status == 401
    served.headers["Cookie"] = cookie("ann@example.com")
    assert served.get(READS).status == served.get(PAGE).status == 200
    assert served.post(WRITES, X_XSRFToken=XSRF).json == {"actor": "ann@example.com"}


def test_a_browser_session_needs_the_xsrf_token(start: Start) -> None:
    """As for Flower's own API."""
    served = start(**OAUTH)
    served.headers["Cookie"] = cookie("ann@example.com")
    wrong: list[dict[str, str]] = [{}, {"X_XSRFToken": "f" * 32}]
    for headers in wrong:
        assert (answer := served.post(WRITES, **headers)).status == 403
        assert "XSRF" in answer.error["message"].upper()


@pytest.mark.parametrize("mode", ["open", "basic", "oauth"])
def test_a_page_of_another_site_changes_nothing(start: Start, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Whatever the browser sends along on its own."""
    monkeypatch.setenv("FLOWER_UNAUTHENTICATED_API", "1")
    options: dict[str, dict[str, Any]] = {"open": {}, "basic": BASIC, "oauth": OAUTH}
    served = start(**options[mode])
    served.headers |= {"Authorization": basic("ann:secret")} if mode == "basic" else {}
    served.headers |= {"Cookie": cookie("ann@example.com"), "X-XSRFToken": XSRF} if mode == "oauth" else {}
    own = f"http://{served.host}"
    for refused in (
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": own},
        {"Sec_Fetch_Site": "none"},
        {"Origin": "http://elsewhere"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Origin": "http://[oops"},
    ):
        answer = served.post(WRITES, **refused)
        assert (answer.status, answer.error["type"]) == (403, "forbidden"), refused
    for allowed in ({}, {"Sec_Fetch_Site": "same-origin"}, {"Origin": own}):
        assert served.post(WRITES, **allowed).status == 200, allowed


def test_read_only_by_our_setting_and_by_flowers(app: Celery, start: Start) -> None:
    """Whoever asks; the answer names the switch."""
    ours = Celery("ours", broker="memory://", set_as_current=False)
    ours.conf.parrot_http_read_only = True
    for served, named in (
        (start(ours, **BASIC), "parrot_http_read_only"),
        (start(read_only=True, **BASIC), "--read_only"),
    ):
        served.headers["Authorization"] = basic("ann:secret")
        assert served.get(READS).status == served.get(PAGE).status == 200
        answer = served.post(WRITES)
        assert (answer.status, answer.error["type"]) == (403, "read_only")
        assert named in answer.error["message"]


def test_faults_show_no_passwords(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Neither to who asks nor in the log, which has the rest."""
    served = start(debug=True)
    with caplog.at_level(logging.DEBUG):
        answer, page = served.get("/parrot/probe/breaks"), served.get("/parrot/probe/breaks-page")
    assert (answer.status, answer.error["type"], page.status) == (500, "internal", 500)
    for text in (answer.body, page.body, caplog.text):
        assert SECRET not in text
        assert "secret" not in text
    assert "Traceback" not in page.body
    assert caplog.text.count("RuntimeError: no route to redis://ann:**@shop/0") == 2


def test_settings_that_cannot_work_are_told(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """At each request of ours; Flower's own pages work."""
    bad = Celery("bad", broker="memory://", set_as_current=False)
    bad.conf.parrot_lease_ttl = -1
    served = start(bad)
    assert "there will be no schedules in Flower: parrot_lease_ttl" in caplog.text
    answer = served.get(READS)
    assert (answer.status, answer.error["type"]) == (503, "misconfigured")
    assert "parrot_lease_ttl = -1" in served.get(PAGE).body
    assert served.get("/").status == served.get("/metrics").status == 200


def test_a_store_that_hangs_holds_up_nobody_else(
    start: Start, make_proxy: Callable[..., TcpProxy], redis_server: PrivateRedis, redis_url: str
) -> None:
    """Other pages answer meanwhile, and who waits for the store is told in the end."""
    proxy = make_proxy("127.0.0.1", redis_server.port)
    app = Celery("slow", broker="memory://", set_as_current=False)
    app.conf.parrot_redis_url = proxy.url("redis://{host}:{port}/0")
    app.conf.parrot_redis_options = {"socket_timeout": 8}
    served = start(app)
    assert served.get(STORED).json["items"] == []
    proxy.stall()
    waiting = [served.connect() for _ in range(THREADS)]
    for one in waiting:
        one.request("GET", STORED)
    wait_until(lambda: served.desk._threads._begun == THREADS, "each to have a thread", 5)
    for path in (PAGE, READS, *AT_HAND, "/healthcheck"):
        assert served.get(path).status == 200, path
    served.desk.patience = 0.1
    answer = served.get(STORED)
    assert (answer.status, answer.error["type"]) == (503, "unreachable")
    assert answer.error["message"] == "There was no answer within 0.1 s.", "who did not answer is not known"
    assert not select([one.sock for one in waiting], [], [], 0)[0], "they wait still"
    proxy.restore()
    for one in waiting:
        assert one.getresponse().status == 200
        one.close()
