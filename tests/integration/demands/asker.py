"""A process that asks for the same thing in several threads at once, when told to, and prints what it is answered."""

from __future__ import annotations

import json
import os
import sys
import threading

from celery_parrot import AlreadyRunning
from tests.integration.demands.app import parrot


def ask(name: str, barrier: threading.Barrier, answers: list[tuple[str, str]]) -> None:
    barrier.wait()
    try:
        answers.append(("asked", parrot.schedules.run_now(name).fire_id))
    except AlreadyRunning as exc:
        answers.append(("refused", exc.held_by))


def main(name: str, threads: int) -> None:
    parrot.schedules.get(name)  # connected
    print("ready", flush=True)
    sys.stdin.readline()
    barrier = threading.Barrier(threads)
    answers: list[tuple[str, str]] = []
    askers = [threading.Thread(target=ask, args=(name, barrier, answers)) for _ in range(threads)]
    for each in askers:
        each.start()
    for each in askers:
        each.join()
    print(json.dumps(answers), flush=True)


def die(name: str) -> None:
    """Ask, and be gone before the answer is read."""
    print(parrot.schedules.run_now(name, key="last words").fire_id, flush=True)
    os._exit(9)


if __name__ == "__main__":
    if sys.argv[2] == "die":
        die(sys.argv[1])
    main(sys.argv[1], int(sys.argv[2]))
