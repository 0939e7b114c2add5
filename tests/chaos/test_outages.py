"""The broker or the coordinator goes away for a while: nothing is lost, doubled, reaped or taken over because of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.chaos.journal import Due, Window, within
from tests.chaos.lab import Lab
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import stays, wall_clock

TICKS = 20
LEASE = 5.0
LONG = pytest.mark.long_form

#: A body of it is running whenever the coordinator goes away.
SLOW = {"slow": {"task": "chaos.slow", "schedule": 5.0, "args": [9.0]}}

#: Seconds by which the worker is back later than the beats. Its leases have lapsed by then and nobody may mind.
BEATS_FIRST = 2.0

MakeRedis = Callable[..., PrivateRedis]
MakeProxy = Callable[..., TcpProxy]


@dataclass(frozen=True)
class Outage:
    """How a server goes away and comes back."""

    url: str
    begin: Callable[[], object]
    end: Callable[[], object]


def _frozen(server: PrivateRedis) -> Outage:
    """Connections stay open and nothing answers; its memory is kept."""
    return Outage(server.url(), server.pause, server.resume)


def _cut(server: PrivateRedis, make_proxy: MakeProxy) -> Outage:
    """Connections are reset and refused; its memory is kept."""
    proxy = make_proxy(server.host, server.port)
    return Outage(proxy.url("redis://{host}:{port}/0"), proxy.cut, proxy.restore)


def _restarted(server: PrivateRedis) -> Outage:
    """Killed, started again from its append-only file."""
    return Outage(server.url(), server.kill, server.start)


def _outage(how: str, make_redis: MakeRedis, make_proxy: MakeProxy) -> Outage:
    if how == "restarted":
        return _restarted(make_redis(appendonly=True))
    server = make_redis()
    return _frozen(server) if how == "frozen" else _cut(server, make_proxy)


def _pass_through(lab: Lab, outage: Outage, seconds: float, *, watched: int) -> tuple[Window, float, float]:
    """Open a window and let the server be away for ``seconds`` of it, between two due times at both ends."""
    window = lab.open_window(watched)
    begin = window.first + 2.6
    lab.at(begin, "the outage to begin")
    outage.begin()
    stays(lambda: all(proc.alive for proc in lab.procs.all), "every process alive", begin + seconds - wall_clock())
    outage.end()
    return window, begin, wall_clock()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["cut", pytest.param("frozen", marks=LONG)])
def test_the_broker_is_away(lab: Lab, make_redis: MakeRedis, make_proxy: MakeProxy, how: str) -> None:
    """Five seconds without the broker, with the coordinator up: the due times in them are committed and wait in the
    outbox; each is executed once after the broker is back."""
    coordinator = make_redis()
    outage = _outage(how, make_redis, make_proxy)
    lab.set_up(outage.url, coordinator.url(), ticks=TICKS, broker_transport_options={"visibility_timeout": 8})
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    lab.wait_ready(*beats)
    window, begin, end = _pass_through(lab, outage, 5, watched=12)
    verdict = lab.close_window(window, label=f"broker {how} for 5 s")
    lab.check(verdict, put_back=True)
    lab.stays_alive(*beats)
    meanwhile = within(window.dues(), begin, end)
    assert meanwhile
    assert "[send-failed]" in lab.logs(beats), "no beat has reported that the broker is away"
    lab.assert_quiet("[fire-taken-over]", "[fire-reaped]", "Traceback")
    lab.check_outcomes(window)


@pytest.mark.long_form
@pytest.mark.timeout(180)
def test_rabbitmq_is_away(lab: Lab, private_redis: PrivateRedis, rabbitmq_url: str, make_proxy: MakeProxy) -> None:
    """As above, with RabbitMQ behind a network that is cut."""
    parts = urlsplit(rabbitmq_url)
    proxy = make_proxy(parts.hostname or "127.0.0.1", parts.port or 5672)
    url = parts._replace(netloc=f"{parts.username}:{parts.password}@{proxy.host}:{proxy.port}").geturl()
    lab.set_up(url, private_redis.url(), ticks=TICKS)
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    lab.wait_ready(*beats)
    window, _, _ = _pass_through(lab, Outage(url, proxy.cut, proxy.restore), 5, watched=12)
    verdict = lab.close_window(window, label="RabbitMQ cut for 5 s")
    lab.check(verdict, put_back=True)
    lab.check_outcomes(window)


def _coordinator_away(lab: Lab, broker: str, outage: Outage, make_proxy: MakeProxy, seconds: int, label: str) -> None:
    lab.set_up(
        broker, outage.url, ticks=TICKS, entries=SLOW, parrot_lease_ttl=LEASE, parrot_reap_interval=1,
        parrot_takeover_after=5,
    )  # fmt: skip
    beats = [lab.beat(), lab.beat()]
    parts = urlsplit(outage.url)
    door = make_proxy(parts.hostname or "", parts.port or 0)  # the worker's own way to the coordinator
    worker = lab.worker(concurrency=8, env=lab.with_conf(parrot_redis_url=door.url("redis://{host}:{port}/0")))
    lab.wait_ready(*beats)
    lab.wait_for_runs(1, ["slow"])

    def begin_both() -> None:
        outage.begin()
        door.cut()

    away = Outage(outage.url, begin_both, outage.end)
    window, begin, end = _pass_through(lab, away, seconds, watched=seconds + 9)
    lab.at(end + BEATS_FIRST, "the worker to be let back")
    door.restore()
    lab.at(end + 3, "the coordinator to be used again")

    def missed() -> set[Due]:
        return lab.missed(window)

    verdict = lab.close_window(window, label=label, missed=missed)
    lab.check(verdict, put_back=True)
    lab.stays_alive(*beats, worker)
    restarted = "restarted" in label  # another server with the same data: the last writes may be lacking
    gone = missed()
    lab.say(f"    due meanwhile {len(within(window.dues(), begin, end))}, missed by policy {len(gone)}")
    if restarted:
        assert "[memory-lost]" in lab.logs(beats), "nobody has noticed that this is another server"
    elif seconds <= 10 - 2:
        assert not gone, "what is at most parrot_on_time late is not missed"
    else:
        assert gone, "coalesce: of a long backlog the latest only"
    for beat in beats:
        assert "[lock-unavailable]" in beat.text(), f"{beat.name} did not say lock_unavailable\n{beat.tail()}"
        assert "lock_unavailable" in beat.text()
    lab.assert_quiet("[fire-taken-over]", "[fire-reaped]", "abandoned", "Traceback")
    if not restarted:
        lab.assert_quiet("[memory-lost]")
    lab.check_outcomes(window)
    slow = [run for run in lab.journal.of("slow") if begin - 9 < run.started < end]
    assert slow, "no body was running over the outage"
    for run in slow:
        assert len([other for other in lab.journal.of("slow") if other.due == run.due]) == 1, f"ran twice: {run}"
    lab.wait_for_success([run.due for run in slow])


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        ("frozen", 5),
        pytest.param("cut", 20, marks=LONG),
        pytest.param("cut", 5, marks=LONG),
        pytest.param("restarted", 5, marks=LONG),
        pytest.param("cut", 60, marks=LONG),
        pytest.param("frozen", 60, marks=LONG),
    ],
)
def test_the_coordinator_is_away(
    lab: Lab, private_redis: PrivateRedis, make_redis: MakeRedis, make_proxy: MakeProxy, how: str, seconds: int,
) -> None:  # fmt: skip
    """Seconds to a minute without the coordinator: nothing is sent meanwhile and the beats say ``lock_unavailable``;
    then each due time is executed once or missed by policy, and nobody is reaped or taken over because of the gap."""
    outage = _outage(how, make_redis, make_proxy)
    _coordinator_away(lab, private_redis.url(), outage, make_proxy, seconds, f"coordinator {how} for {seconds} s")


@pytest.mark.long_form
@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", ["cut", "frozen", "restarted"])
def test_the_one_redis_for_both_is_away(lab: Lab, make_redis: MakeRedis, make_proxy: MakeProxy, how: str) -> None:
    """One Redis as broker and coordinator, the usual start, away for 5 s."""
    outage = _outage(how, make_redis, make_proxy)
    transport = {"visibility_timeout": 8}
    lab.set_up(outage.url, outage.url, ticks=TICKS, parrot_lease_ttl=3, broker_transport_options=transport)
    beats = [lab.beat(), lab.beat()]
    worker = lab.worker()
    lab.wait_ready(*beats)
    window, _, _ = _pass_through(lab, outage, 5, watched=16)
    label = f"the one Redis {how} for 5 s"
    verdict = lab.close_window(window, label=label, missed=lambda: lab.missed(window))
    lab.check(verdict, put_back=True)
    lab.stays_alive(*beats, worker)
    lab.assert_quiet("[fire-reaped]")
    assert ("[memory-lost]" in lab.logs(beats)) is (how == "restarted")
