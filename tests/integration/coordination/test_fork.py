"""A client made before a fork is not used after it."""

from __future__ import annotations

import os
from typing import Any

from celery_parrot.coordination.redis import RedisWake
from tests.integration.coordination.helpers import NAME, connect, scene_of
from tests.support.forks import in_child


def test_parent_and_child_do_not_share_connections(redis_url: str, redis_client: Any) -> None:
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    scene.register()
    before = len(redis_client.client_list())

    def child() -> None:
        for n in range(1, 200):
            assert coordinator.claims([scene.key(n)]) == [None]
        coordinator.close()

    assert in_child(child) == 0
    for n in range(1, 200):  # an answer meant for the child would be in the way
        assert coordinator.claims([scene.key(n)]) == [None]
    assert len(redis_client.client_list()) == before
    coordinator.close()


def test_both_at_once(redis_url: str) -> None:
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    scene.register()
    scene.commit(*range(1, 101))
    ready, go = os.pipe()

    def child() -> None:
        os.write(go, b"x")
        for n in range(1, 101):
            fire = coordinator.claims([scene.key(n)])[0]
            assert fire is not None
            assert fire.key == scene.key(n)

    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.read(ready, 1)
    for n in range(100, 0, -1):
        fire = coordinator.claims([scene.key(n)])[0]
        assert fire is not None
        assert fire.key == scene.key(n)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(ready)
    os.close(go)
    coordinator.close()


def test_a_wake_channel_made_before_a_fork(redis_url: str) -> None:
    wake = RedisWake(redis_url, NAME)
    assert wake.wait(2)  # subscribes

    def child() -> None:
        assert wake.wait(2)  # subscribes anew
        assert not wake.wait(0.01)
        wake.wake()
        assert wake.wait(2)
        wake.close()

    assert in_child(child) == 0
    assert wake.wait(2)  # the child's wake-up reached the parent, and nobody stole it
    wake.close()
