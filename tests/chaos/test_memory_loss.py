"""The coordinator forgets everything while beats and workers live."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.journal import within
from tests.chaos.lab import PATIENCE, Lab
from tests.support.procs import Proc
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until, wall_clock

TICKS = 20

#: What DESIGN 1 admits: what was in flight in the last second may repeat or lose its outcome.
IN_FLIGHT = 1.0

#: Shorter than the default, since nothing is committed for one lease time after a loss.
LEASE = 3

MakeRedis = Callable[..., PrivateRedis]
MakeProxy = Callable[..., TcpProxy]


def _start(lab: Lab, broker: str, coordinator: PrivateRedis, *, workers: bool = True) -> list[Proc]:
    lab.set_up(broker, coordinator.url(), ticks=TICKS, parrot_lease_ttl=LEASE)
    beats = [lab.beat(), lab.beat()]
    if workers:
        lab.worker()
    lab.wait_ready(*beats)
    return beats


def _wait_until_reported(lab: Lab, beats: list[Proc]) -> None:
    for beat in beats:
        wait_until(
            lambda beat=beat: "[memory-lost]" in beat.text() or "[epoch-joined]" in beat.text(),  # type: ignore[misc]
            f"{beat.name} to report the loss",
            PATIENCE,
            explain=beat.tail,
        )
    assert "[memory-lost]" in lab.logs(beats)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["FLUSHALL", pytest.param("restarted empty", marks=pytest.mark.long_form)])
def test_forgotten_between_two_ticks(lab: Lab, make_redis: MakeRedis, how: str) -> None:
    """All keys are gone half a second after a due time: the beats put back their marks, nothing runs twice beyond what
    was in flight in the last second, nothing later is lost, and the loss is reported."""
    broker, coordinator = make_redis(), make_redis()
    beats = _start(lab, broker.url(), coordinator)
    window = lab.open_window(12)
    lab.at(window.first + 2.6, "the middle between two due times")
    lost = wall_clock()
    if how == "FLUSHALL":
        coordinator.flush()
    else:
        coordinator.restart()
    _wait_until_reported(lab, beats)
    verdict = lab.close_window(
        window,
        label=f"coordinator {how} between two ticks",
        may_repeat=within(window.dues(), lost - IN_FLIGHT, lost),
    )
    lab.check(verdict, put_back=True)
    lab.stays_alive(*beats)


@pytest.mark.timeout(180)
def test_forgotten_between_commit_and_send(lab: Lab, make_redis: MakeRedis, make_proxy: MakeProxy) -> None:
    """Fires wait in the outbox for a broker that is away when the coordinator forgets them: the beats' mirror of the
    outbox brings them back, each runs once."""
    broker, coordinator = make_redis(), make_redis()
    proxy = make_proxy(broker.host, broker.port)
    beats = _start(lab, proxy.url("redis://{host}:{port}/0"), coordinator)
    window = lab.open_window(12)
    lab.at(window.first + 1.6, "the broker to be cut off")
    proxy.cut()
    lab.at(window.first + 4.6, "three due times to be committed and not sent")
    lost = wall_clock()
    coordinator.flush()
    _wait_until_reported(lab, beats)
    proxy.restore()
    verdict = lab.close_window(
        window,
        label="coordinator FLUSHALL between commit and send",
        may_repeat=within(window.dues(), lost - IN_FLIGHT, lost),
    )
    lab.check(verdict, put_back=True)
    lab.stays_alive(*beats)


@pytest.mark.timeout(180)
def test_forgotten_under_a_running_task(lab: Lab, make_redis: MakeRedis) -> None:
    """A worker puts back what it is running: the body runs once and its outcome is recorded."""
    broker, coordinator = make_redis(), make_redis()
    entries = {"slow": {"task": "chaos.slow", "schedule": 8.0, "args": [6.0]}}
    lab.set_up(broker.url(), coordinator.url(), entries=entries, parrot_lease_ttl=LEASE, parrot_reap_interval=1)
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    lab.wait_ready(*beats)
    (run, *_) = lab.wait_for_runs(1, ["slow"])
    lab.at(run.started + 2, "the body to be under way")  # its confirm and its mark are more than a second old
    coordinator.flush()
    _wait_until_reported(lab, beats)
    lab.wait_for_success([run.due])
    assert [other.what for other in lab.journal.runs() if other.due == run.due] == ["ran", "done"]
