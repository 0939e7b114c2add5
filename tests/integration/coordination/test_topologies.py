"""A master behind Sentinel that is replaced, and a cluster; both as they are named in the settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_parrot.clock import SystemClock
from celery_parrot.coordination.redis import RedisCoordinator, RedisWake
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.fire import Status
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import Memory
from celery_parrot.runtime.backends import Backends, backends
from celery_parrot.runtime.config import Settings, load
from celery_parrot.stores.redis import RedisStore
from celery_parrot.testing.conformance import Scene
from celery_parrot.testing.conformance.schedule_store import EVERY, make
from tests.integration.coordination.helpers import fails_within, scene_of
from tests.integration.coordination.test_wake import ready, woken_from_outside
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

SECRET = "s3cret"


class Sentinel(PrivateRedis):
    """One sentinel that decides alone."""

    def __init__(self, directory: Path, master: PrivateRedis) -> None:
        super().__init__(directory)
        self._master = master

    def _spawn(self) -> None:
        conf = self._directory / "sentinel.conf"
        conf.write_text(
            f"port {self.port}\nbind {self.host}\ndir {self._directory}\n"
            f"sentinel monitor mymaster {self._master.host} {self._master.port} 1\n"
            f"sentinel auth-pass mymaster {SECRET}\n"
            "sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n"
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._binary), str(conf), "--sentinel"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._directory, start_new_session=True,
            )  # fmt: skip

    def master(self) -> int:
        """The port of who is master now."""
        with self.client() as client:
            return int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")[1])

    def sees_a_replica(self) -> bool:
        with self.client() as client:
            (one,) = client.sentinel_slaves("mymaster")
            return bool(one["master-link-status"] == "ok" and int(one["slave-priority"]) > 0)


class Group:
    """A master, its replica and a sentinel."""

    def __init__(self, directory: Path, make_redis: Callable[..., PrivateRedis]) -> None:
        open_to_us = {"requirepass": SECRET, "masterauth": SECRET, "repl-diskless-sync-delay": "0"}
        self.first = Guarded(directory / "first", options=open_to_us).start()
        self.second = Guarded(
            directory / "second", options={**open_to_us, "replicaof": f"{self.first.host} {self.first.port}"}
        ).start()
        wait_until(self.in_step, "the replica to be in step", 10)
        self.sentinel = Sentinel(directory / "sentinel", self.first).start()
        wait_until(self.sentinel.sees_a_replica, "the sentinel to see the replica", 10)

    def in_step(self) -> bool:
        """The replica has all that the master has."""
        with self.first.client() as master, self.second.client() as replica:
            theirs = replica.info("replication")
            ours = master.info("replication")
        return bool(theirs["master_link_status"] == "up" and theirs["slave_repl_offset"] == ours["master_repl_offset"])

    def close(self) -> None:
        for server in (self.sentinel, self.second, self.first):
            server.close()


class Guarded(PrivateRedis):
    """A server that asks for a password."""

    def client(self, db: int = 0, **options: Any) -> Any:
        return super().client(db, password=SECRET, **options)


@pytest.fixture
def group(tmp_path: Path, make_redis: Callable[..., PrivateRedis]) -> Iterator[Group]:
    group = Group(tmp_path, make_redis)
    yield group
    group.close()


def opened(**settings: Any) -> tuple[Settings, Backends]:
    app = Celery("test", set_as_current=False)
    app.conf.update(parrot_name="main", **settings)
    read = load(app, {})
    return read, backends(app, read, SystemClock())


def behind(sentinel: Sentinel) -> dict[str, Any]:
    return {
        "parrot_redis_url": f"sentinel://:{SECRET}@127.0.0.1:{sentinel.port}",
        "parrot_redis_options": {"master_name": "mymaster"},
        "parrot_lease_ttl": 1.0,  # so long nothing is committed after a loss of memory
    }


def at_the_new_master(coordinator: RedisCoordinator) -> bool:
    """Whether it is told that the server is another one. The old one, if it lives, still answers for a while."""
    try:
        coordinator.beats()
    except MemoryLost:
        return coordinator.remember(Memory()).quiet
    return False


def commits(scene: Scene, mark: float, fire: float) -> None:
    wait_until(lambda: scene.commit(fire, mark=mark).verdict is Verdict.COMMITTED, "a commit on the new master", 5)


@pytest.mark.parametrize("how", ["asked for", "the master is killed"])
def test_commits_go_on_after_a_failover(group: Group, how: str) -> None:
    """The new master is another server, which the beats notice, put right and go on with."""
    _, opened_here = opened(**behind(group.sentinel))
    coordinator, wake = opened_here.coordinator, opened_here.wake()
    assert isinstance(coordinator, RedisCoordinator)
    assert isinstance(wake, RedisWake)
    scene = scene_of(coordinator)
    scene.pending()
    ready(wake)
    wait_until(group.in_step, "the replica to be in step", 5)
    if how == "asked for":
        with group.sentinel.client() as client:
            client.execute_command("SENTINEL", "FAILOVER", "mymaster")
    else:
        group.first.kill()
        error = fails_within(5, lambda: scene.commit(2, mark=1))
        assert "mymaster" in str(error)
        assert SECRET not in str(error)
    wait_until(lambda: group.sentinel.master() == group.second.port, "the failover", 15)
    wait_until(lambda: at_the_new_master(coordinator), "the new master to be noticed", 5)
    commits(scene, 1, 2)
    assert [scene.status(n) for n in (1, 2)] == [Status.PENDING, Status.PENDING]
    with group.second.client() as client:
        assert client.role()[0] == "master"
        assert client.hexists("parrot:scheduler:main:state:a", "last_due")
    speaker = opened_here.wake()
    if how == "the master is killed":  # else its listeners stay until it is told to be a replica, some 10 s later
        wait_until(lambda: wake.wait(0.1), "the listener to be back", 5)
        wake.wait(0.05)
        woken_from_outside(wake, speaker)
    for one in (wake, speaker, opened_here):
        one.close()


def test_no_sentinel_answers(group: Group) -> None:
    """New connections are out of reach, and soon; who is connected goes on."""
    _, connected = opened(**behind(group.sentinel))
    connected.coordinator.attach()
    group.sentinel.kill()
    _, late = opened(**behind(group.sentinel))
    error = fails_within(1, late.coordinator.attach)
    assert SECRET not in str(error)
    assert connected.coordinator.beats() == []
    for one in (connected, late):
        one.close()


def test_a_child_asks_by_connections_of_its_own(group: Group) -> None:
    _, ours = opened(**behind(group.sentinel))
    ours.coordinator.attach()
    child = os.fork()
    if child == 0:
        try:
            ours.coordinator.beats()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ours.coordinator.beats() == []
    ours.close()


@pytest.fixture
def node(make_redis: Callable[..., PrivateRedis]) -> PrivateRedis:
    """A cluster of one."""
    node = make_redis(options={"cluster-enabled": "yes", "cluster-config-file": "nodes.conf"})
    with node.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO")), "the cluster", 10)
    return node


def test_a_cluster(node: PrivateRedis) -> None:
    """Coordination, schedules and waking, all in one slot."""
    url = f"redis+cluster://127.0.0.1:{node.port};127.0.0.1:1"
    settings, here = opened(parrot_redis_url=url, parrot_redis_options={"socket_timeout": 1})
    coordinator, store, wake = here.coordinator, here.redis, here.wake()
    assert isinstance(coordinator, RedisCoordinator)
    assert isinstance(store, RedisStore)
    scene = scene_of(coordinator)
    scene.sent()
    assert scene.start().verdict == "run"
    assert scene.status() is Status.RUNNING
    store.insert([make("nightly", store="redis", schedule_config={"seconds": EVERY})])
    assert [one.name for one in store.find().items] == ["nightly"]
    ready(wake)  # type: ignore[arg-type]
    speaker = here.wake()
    woken_from_outside(wake, speaker)
    with node.client() as client:
        keys = client.keys("*")
        assert all(key.startswith("parrot:scheduler:{main}:") for key in keys)
        slots = {client.execute_command("CLUSTER", "KEYSLOT", key) for key in keys}
        assert slots == {client.execute_command("CLUSTER", "KEYSLOT", settings.namespace.prefix)}
    for one in (wake, speaker, here):
        one.close()


def test_a_cluster_that_is_away_is_unreachable_and_comes_back(node: PrivateRedis) -> None:
    """Also for who never reached it: the client library has an error of its own for that."""
    settings = {"parrot_redis_url": f"redis+cluster://:{SECRET}@127.0.0.1:{node.port}"}
    node_settings = {"parrot_redis_url": f"redis+cluster://127.0.0.1:{node.port}"}
    _, connected = opened(**node_settings)
    wake = connected.wake()
    connected.coordinator.attach()
    ready(wake)  # type: ignore[arg-type]
    node.kill()
    assert not wake.wait(0.1)
    _, late = opened(**settings)
    for one in (connected, late):
        error = fails_within(1, one.coordinator.attach)
        assert SECRET not in str(error)
        assert str(node.port) in str(error)
    node.start()

    def attached() -> bool:
        try:
            connected.coordinator.attach()
        except MemoryLost:
            connected.coordinator.remember(Memory())
        except Unreachable:
            return False
        return True

    wait_until(attached, "the cluster to be back", 10)
    wait_until(lambda: wake.wait(0.1), "the listener to be back", 5)
    for closing in (wake, connected, late):
        closing.close()


def test_a_socket_file(tmp_path: Path, make_redis: Callable[..., PrivateRedis]) -> None:
    make_redis(options={"unixsocket": str(tmp_path / "s")})
    _, here = opened(parrot_redis_url=f"redis+socket://{tmp_path / 's'}?virtual_host=2")
    assert not here.coordinator.attach().quiet
    here.close()
