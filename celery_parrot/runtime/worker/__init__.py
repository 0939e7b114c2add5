"""The worker's side: fires are opened before their task's body runs, and their outcome is recorded after it.

:func:`install` puts a guard on every task of an app. Messages without a ``parrot`` header of the installed name cost
one dict look-up and are otherwise untouched.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any, Final, Literal

from celery import Celery, signals

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.dispatch.routing import HEADER
from celery_parrot.instrumentation import LogEvents
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator, EventSink
from celery_parrot.runtime.worker import registry
from celery_parrot.runtime.worker.guard import run_of
from celery_parrot.runtime.worker.headers import scheduler_of
from celery_parrot.runtime.worker.hooks import hook_app, hook_tasks
from celery_parrot.runtime.worker.installed import Installed
from celery_parrot.runtime.worker.permits import Permits
from celery_parrot.runtime.worker.thresholds import Thresholds

__all__ = ["Permits", "Thresholds", "install"]

LOGGER: Final = "celery_parrot.worker"


def install(
    app: Celery,
    connect: Callable[[], Coordinator],
    namespace: Namespace,
    *,
    unreachable: Literal["hold", "run"] = "hold",
    result_max_chars: int = 4096,
    lease: float = 15.0,
    thresholds: Thresholds | None = None,
    permits: Permits | None = None,
    clock: Clock | None = None,
    events: EventSink | None = None,
) -> Installed:
    """Guard the fires of ``namespace`` in the workers of ``app``. Repeating it for one name replaces the settings.

    Cheap and without I/O: call it where the app is made, or when it is finalised, in clients too.

    :param connect: makes a coordinator without connecting yet; called once in each process that runs fires, on first
        use, and where a worker starts, so that what it imports is there before the pool is forked.
    :param unreachable: what becomes of a fire that cannot be opened: ``hold`` it back, or ``run`` it all the same.
    :param result_max_chars: longest output or error text that is recorded.
    :param lease: seconds that a run lease lives between renewals; as the coordinator has it.
    :param permits: which tasks fires may run here; default: every one.
    :param thresholds: how long fires of each kind may be silent; default: no kind is declared here.
    :param events: told of every start and end; default: the log ``celery_parrot.worker``.
    """
    installed = Installed(
        connect,
        namespace,
        unreachable=unreachable,
        result_max_chars=result_max_chars,
        lease=lease,
        thresholds=thresholds or Thresholds(),
        permits=permits or Permits(),
        clock=clock or SystemClock(),
        events=events or LogEvents(LOGGER),
    )
    before = registry.add(app, installed)
    if before is not None:
        installed.main_pid = before.main_pid
        before.sessions.stop()
    hook_app(app, before_body)
    _listen()
    return installed


def before_body(task: Any, task_id: str) -> None:
    """What every hooked task calls before its body."""
    request = task.request
    header = request.__dict__.get(HEADER)
    if header is None or request.called_directly or request.is_eager or run_of(request) is not None:
        return
    installed = registry.find(task.app, scheduler_of(header, task_id))
    if installed is not None:
        installed.guard.admit(task, header)


# --- what Celery tells ---


def _on_received(request: Any = None, **_: Any) -> None:
    parent = getattr(request, "_parrot", None)  # of our request class
    if parent is not None:
        parent.received(request)


def _on_postrun(sender: Any = None, state: str | None = None, retval: Any = None, **_: Any) -> None:
    run = run_of(sender.request)
    if run is not None:
        installed = registry.find(sender.app, scheduler_of(sender.request.__dict__.get(HEADER), sender.request.id))
        if installed is not None:
            installed.guard.settle(sender, run, state, retval)


def _on_revoked(
    sender: Any = None, request: Any = None, terminated: bool = False, expired: bool = False, **_: Any
) -> None:
    headers = getattr(request, "__dict__", {})
    installed = registry.find(sender.app, scheduler_of(headers.get(HEADER), headers.get("id")))
    if installed is not None:
        installed.parent.revoked(headers, headers.get("hostname") or "", terminated=terminated, expired=expired)


def _on_unknown(sender: Any = None, message: Any = None, name: str = "", **_: Any) -> None:
    headers = message.headers or {}
    installed = registry.find(sender.app, scheduler_of(headers.get(HEADER), headers.get("id")))
    if installed is not None:
        installed.parent.unknown(headers, sender.hostname or "", name)


def _on_rejected(sender: Any = None, message: Any = None, exc: BaseException | None = None, **_: Any) -> None:
    headers = message.headers or {}
    installed = registry.find(sender.app, scheduler_of(headers.get(HEADER), headers.get("id")))
    if installed is not None:
        installed.parent.invalid(headers, sender.hostname or "", exc)


def _on_worker_init(sender: Any = None, **_: Any) -> None:
    for installed in registry.of(sender.app):
        installed.worker_starts()
        hook_tasks(sender.app, before_body)  # before the pool forks and before the consumer builds its strategies


def _on_worker_shutdown(sender: Any = None, **_: Any) -> None:
    for installed in registry.of(sender.app):
        installed.worker_stops()


def _on_process_end(**_: Any) -> None:
    for installed in registry.everything():
        installed.process_stops()


_listening = False


def _listen() -> None:
    """Once a process, however many apps there are."""
    global _listening
    if _listening:
        return
    _listening = True
    for signal, receiver in (
        (signals.task_received, _on_received),
        (signals.task_postrun, _on_postrun),
        (signals.task_revoked, _on_revoked),
        (signals.task_unknown, _on_unknown),
        (signals.task_rejected, _on_rejected),
        (signals.worker_init, _on_worker_init),
        (signals.worker_shutdown, _on_worker_shutdown),
        (signals.worker_process_shutdown, _on_process_end),
    ):
        signal.connect(receiver, weak=False)
    atexit.register(_on_process_end)
