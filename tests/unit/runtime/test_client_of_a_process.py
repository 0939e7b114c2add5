"""``parrot.schedules``: one client a process, whoever asks first."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from celery import Celery

from celery_parrot import Parrot
from celery_parrot.runtime import clients


class Client:
    """Stands where a client is kept, and notes that it was let go."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_threads_that_ask_first_get_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """All four have made one before any is kept; three let go of theirs."""
    made: list[Client] = []
    together = threading.Barrier(4, timeout=10)

    def make(parrot: Parrot) -> Any:
        client = Client()
        made.append(client)
        together.wait()
        return client

    monkeypatch.setattr(clients, "schedules", make)
    parrot = Parrot(Celery("several-threads", set_as_current=False))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(parrot.schedules)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 4
    assert all(one is parrot.schedules for one in found)
    assert sorted(client.closed for client in made) == [False, True, True, True]
    parrot.close()
    assert all(client.closed for client in made)
