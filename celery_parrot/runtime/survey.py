"""What only somebody who looks into a problem asks: of the server of Redis, and of the workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from celery import Celery

from celery_parrot.clock import Clock
from celery_parrot.errors import Unreachable
from celery_parrot.model.secrets import mask
from celery_parrot.runtime.backends import redis_link
from celery_parrot.runtime.config import Settings

if TYPE_CHECKING:
    from celery_parrot.coordination.redis.survey import Keys, Server


def redis_server(settings: Settings, clock: Clock) -> Server:
    """The server that the beats agree on. Raises Unreachable."""
    from celery_parrot.coordination.redis.survey import server_of

    with closing(redis_link(settings, clock)) as link:
        return server_of(link)


def redis_keys(settings: Settings, clock: Clock) -> Keys:
    """The keys of this scheduler. Raises Unreachable."""
    from celery_parrot.coordination.redis import PERMANENT_KEYS
    from celery_parrot.coordination.redis.survey import keys_of
    from celery_parrot.stores.redis import PERMANENT_KEYS as PERMANENT_IN_STORE

    with closing(redis_link(settings, clock)) as link:
        return keys_of(link, settings.namespace, (*PERMANENT_KEYS, *PERMANENT_IN_STORE), clock)


@dataclass(frozen=True, slots=True)
class Worker:
    """What a live worker says of itself.

    :ivar tasks: the names of those it registers. ``queues``: of those it consumes; None if it did not say.
    """

    tasks: frozenset[str]
    queues: frozenset[str] | None = None


def live_workers(app: Celery, *, timeout: float = 1.0, patience: float = 4.0) -> Mapping[str, Worker]:
    """Each worker that answers within ``timeout`` seconds; empty if none does.

    :param patience: seconds after which a broker that does not let us ask counts as out of reach.
    :raises Unreachable: if the broker cannot be asked.
    """
    answers: list[Mapping[str, Worker] | Exception] = []

    def ask() -> None:
        try:
            with app.connection_for_write() as connection:
                # Tried once and again, not for the seconds that are good for a worker.
                connection.ensure_connection(max_retries=1, interval_start=0)
                inspect = app.control.inspect(timeout=timeout, connection=connection)
                tasks = inspect.registered() or {}
                queues = (inspect.active_queues() or {}) if tasks else {}
        except Exception as error:  # of kombu's many transports
            answers.append(error)
            return
        answers.append({name: Worker(_tasks(said), _queues(queues.get(name))) for name, said in tasks.items()})

    # A thread, since each transport has its own idea of how long to try.
    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(patience)
    answer = answers[0] if answers else Unreachable(f"no answer within {patience:g} s")
    if isinstance(answer, Exception):
        raise Unreachable(mask(" ".join(str(answer).split()))) from None
    return answer


def routed_queue(app: Celery, task: str) -> str | None:
    """Where Celery's own routing sends a task; None where that is no queue, but an exchange."""
    queue = app.amqp.router.route({}, task).get("queue")
    return None if queue is None else str(getattr(queue, "name", queue))


def _tasks(said: object) -> frozenset[str]:
    """Celery appends attributes of a task in brackets."""
    return frozenset(str(each).partition(" [")[0] for each in said) if isinstance(said, list) else frozenset()


def _queues(said: object) -> frozenset[str] | None:
    return frozenset(str(each.get("name")) for each in said) if isinstance(said, list) else None
