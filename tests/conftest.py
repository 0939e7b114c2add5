"""Fixtures and policies for every test. tests/README.md is the manual."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path

import hypothesis
import pytest
import redis

pytest.register_assert_rewrite("tests.support")

from tests.support import figures  # noqa: E402
from tests.support.databases import own_mysql, own_postgresql  # noqa: E402 - after the rewrite is registered
from tests.support.procs import Procs  # noqa: E402
from tests.support.proxy import TcpProxy  # noqa: E402
from tests.support.rabbit import own_vhost  # noqa: E402
from tests.support.redis_keys import PERMANENT_KEYS, assert_no_leaks  # noqa: E402
from tests.support.redis_server import HOW_TO_GET_ONE, PrivateRedis, server_binary  # noqa: E402
from tests.support.services import in_ci, unavailable, unique  # noqa: E402

TESTS = Path(__file__).parent
BY_FOLDER = ("unit", "conformance", "integration", "e2e", "chaos", "simulation")
MARK_OF_FOLDER = {**{name: name for name in BY_FOLDER}, "benchmarks": "benchmark", "architecture": "unit"}

# A time limit per example measures the neighbours; the limit per test is pytest-timeout's.
hypothesis.settings.register_profile("laptop", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("ci" if in_ci() else "laptop")


# --- options ----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("celery-parrot")
    group.addoption("--full", action="store_true", help="the long form (make long, make chaos)")
    group.addoption("--sim-seeds", type=int, default=200, metavar="N", help="how many seeds the simulator tries")
    group.addoption("--sim-seed", type=int, default=None, metavar="SEED", help="replay one seed of the simulator")


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether this is the long form: minutes and several seeds instead of some 20 s and one seed."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def sim_seeds(pytestconfig: pytest.Config) -> Sequence[int]:
    """The simulator's seeds for this run: ``range(N)``, or the one to replay."""
    one = pytestconfig.getoption("--sim-seed")
    return [int(one)] if one is not None else range(int(pytestconfig.getoption("--sim-seeds")))


# --- collection and reports -------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by its folder, so that nobody has to remember to, and give the long forms their time."""
    for item in items:
        if item.path.is_relative_to(TESTS):
            mark = MARK_OF_FOLDER.get(item.path.relative_to(TESTS).parts[0])
            if mark is not None:
                item.add_marker(mark)
            if config.getoption("--full") and mark in ("e2e", "chaos") and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(900))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failing test what its servers and processes logged last."""
    report = yield
    if report.failed and report.when in ("setup", "call"):
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, (Procs, PrivateRedis)):
                report.sections += value.report_sections()
    return report


# --- Redis ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRedis]:
    """The server that the tests of this run (of this pytest-xdist worker) share. Never stop this one."""
    if server_binary() is None:
        unavailable("A Redis server program", HOW_TO_GET_ONE)
    with PrivateRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    """Keys that may stay in Redis without a TTL. Override in a module that needs another list."""
    return PERMANENT_KEYS


@pytest.fixture
def redis_url(
    redis_server: PrivateRedis, permanent_keys: Sequence[str], request: pytest.FixtureRequest
) -> Iterator[str]:
    """An empty database. After the test every ``parrot:`` key must have a TTL or be on the permanent list, unless the
    test is marked ``keeps_keys("why")``."""
    redis_server.flush()
    yield redis_server.url()
    if request.node.get_closest_marker("keeps_keys") is None:
        with redis_server.client() as client:
            assert_no_leaks(client, permanent_keys)


@pytest.fixture
def redis_client(redis_server: PrivateRedis, redis_url: str) -> Iterator[redis.Redis]:
    """A client of :func:`redis_url`, answers decoded."""
    with redis_server.client() as client:
        yield client


@pytest.fixture
def make_redis(tmp_path: Path) -> Iterator[Callable[..., PrivateRedis]]:
    """Start servers of the test's own: ``make_redis(appendonly=True, options={"maxmemory": "2mb"})``."""
    if server_binary() is None:
        unavailable("A Redis server program", HOW_TO_GET_ONE)
    servers: list[PrivateRedis] = []

    def make(*, appendonly: bool = False, options: Mapping[str, str] | None = None) -> PrivateRedis:
        server = PrivateRedis(tmp_path / f"redis-{len(servers)}", appendonly=appendonly, options=options)
        servers.append(server)
        return server.start()

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def private_redis(make_redis: Callable[..., PrivateRedis]) -> PrivateRedis:
    """A server of the test's own, to be killed, paused and restarted. It forgets everything when it ends."""
    return make_redis()


@pytest.fixture
def durable_redis(make_redis: Callable[..., PrivateRedis]) -> PrivateRedis:
    """As :func:`private_redis`, with an append-only file: it keeps its data over a kill."""
    return make_redis(appendonly=True)


# --- other services ---------------------------------------------------------------------------------------------------


@pytest.fixture
def rabbitmq_url() -> Iterator[str]:
    """A RabbitMQ broker: a fresh virtual host as root, else the shared one (then use :func:`queue_prefix`)."""
    with own_vhost() as url:
        yield url


@pytest.fixture
def queue_prefix() -> str:
    """A prefix for queue names that no other test uses."""
    return f"parrot-test-{unique()}-"


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty PostgreSQL database."""
    with own_postgresql() as url:
        yield url


@pytest.fixture
def mysql_url() -> Iterator[str]:
    """An empty MariaDB (or MySQL) database."""
    with own_mysql() as url:
        yield url


@pytest.fixture
def make_proxy() -> Iterator[Callable[..., TcpProxy]]:
    """Put a breakable network before a server: ``make_proxy("127.0.0.1", private_redis.port)``."""
    proxies: list[TcpProxy] = []

    def make(host: str, port: int, *, delay: float = 0.0) -> TcpProxy:
        proxy = TcpProxy(host, port, delay=delay)
        proxies.append(proxy)
        return proxy

    yield make
    for proxy in proxies:
        proxy.close()


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def procs(tmp_path: Path) -> Iterator[Procs]:
    """Starts beats, workers and other programs; ends them, and all they started, after the test."""
    running = Procs(tmp_path / "procs")
    yield running
    running.close()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names that the library reads as settings are absent unless a test sets them."""
    for name in [n for n in os.environ if n.startswith(("SCHEDULER_", "CELERY_"))]:
        monkeypatch.delenv(name)


# --- what was measured ------------------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts and lateness of every window."""
    figures.show(terminalreporter)
