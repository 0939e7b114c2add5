"""RabbitMQ: one shared server, a virtual host of its own for each test where that is possible."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.support.services import answers, unavailable, unique

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672//"


def server_url() -> str:
    """The shared server: ``PARROT_TEST_RABBITMQ_URL``, else the usual local one."""
    return os.environ.get("PARROT_TEST_RABBITMQ_URL", DEFAULT_URL)


def require_rabbitmq() -> str:
    """The shared server's URL; skips (or, in CI, fails) the test when nothing answers there."""
    url = server_url()
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 5672
    if not answers(host, port):
        unavailable(
            f"RabbitMQ on {host}:{port}",
            "Start it (`rabbitmq-server -detached`) or set PARROT_TEST_RABBITMQ_URL.",
        )
    return url


def control() -> str | None:
    """``rabbitmqctl``, when this user may use it."""
    if os.geteuid() != 0:
        return None
    return shutil.which("rabbitmqctl") or shutil.which("rabbitmqctl", path="/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def own_vhost() -> Iterator[str]:
    """A URL with a fresh virtual host, dropped afterwards with all its queues; without rabbitmqctl, the shared one."""
    url = require_rabbitmq()
    ctl = control()
    parts = urlsplit(url)
    if ctl is None or parts.hostname not in ("127.0.0.1", "localhost"):
        yield url
        return
    vhost = f"parrot-test-{unique(12)}"

    def run(*arguments: str) -> None:
        result = subprocess.run([ctl, "-q", *arguments], capture_output=True, text=True, timeout=60, check=False)
        if result.returncode:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {result.stderr or result.stdout}")

    run("add_vhost", vhost)
    try:
        run("set_permissions", "-p", vhost, parts.username or "guest", ".*", ".*", ".*")
        yield parts._replace(path=f"/{vhost}").geturl()
    finally:
        run("delete_vhost", vhost)
