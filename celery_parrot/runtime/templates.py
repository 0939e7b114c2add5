"""What Celery makes of a task message, worked out once for all messages that differ in nothing but ids and arguments.

Celery resolves options, route, queue and delivery mode anew for every message. Here the first two messages of a kind go
all the way through it, into a recorder; if the second can be told from the first, those that follow are. Whatever
could depend on more than that (code of the user's, relative times, a newer Celery) keeps going all the way.
"""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Final

from celery import Celery, signals
from celery.app import amqp as celerys_amqp
from celery.app import base as celerys_base
from celery.app import routes as celerys_routes
from celery.app import task as celerys_task

from celery_parrot.protocols import Message

Call = tuple[Any, dict[str, Any]]
"""Body and keyword arguments of a ``Producer.publish``."""

_MOST: Final = 1000
_SIMPLE: Final = (str, int, float, bool, type(None))
_IDS: Final = ("id", "root_id")
_OF_ARGUMENTS: Final = ("argsrepr", "kwargsrepr")
_OF_TASK: Final = ("_exec_options", "ignore_result", "typing", "time_limit", "soft_time_limit")


def listened() -> bool:
    """Whether somebody wants to hear of each message before or after it is published."""
    # getattr: the stubs do not know the deprecated one, which a later Celery may not have.
    heard = (signals.before_task_publish, signals.after_task_publish, getattr(signals, "task_sent", None))
    return any(signal is not None and signal.receivers for signal in heard)


class Recorder:
    """Stands in for a producer and keeps what it was to publish."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.call: Call | None = None

    def publish(self, body: Any, **kwargs: Any) -> None:
        self.call = (body, kwargs)


@dataclass(frozen=True, slots=True)
class _Template:
    """:ivar headers: Celery's own, in their order. ``ids``: which of them hold the task id.
    :ivar kwargs: of the publish, without headers and correlation id. ``check``: of the arguments, as Celery does it.
    :ivar source: what Celery made it from, and might make something else of once that has changed.
    """

    headers: Mapping[str, Any]
    ids: tuple[str, ...]
    kwargs: Mapping[str, Any]
    embed: Any
    source: tuple[Any, ...]
    check: Callable[..., Any] | None
    trusted: bool = False


class Templates:
    """Of one app. For one thread at a time.

    :param through: sends a message all the way through Celery, on the producer given.
    """

    def __init__(self, app: Celery, through: Callable[[Message, Any], None]) -> None:
        self._app, self._through = app, through
        self._known: OrderedDict[tuple[Any, ...], _Template | None] = OrderedDict()
        self._declared: tuple[Any, set[tuple[Any, ...]]] = (None, set())
        self._repr: Callable[[Any], str] | None = None

    def usable(self) -> bool:
        """Whether Celery's own code alone decides what a message is like. May change while a process runs: tracing
        tools replace functions of Celery's."""
        app, conf = self._app, self._app.conf
        amqp: Any = app.amqp
        return (
            conf.task_protocol == 2
            and not conf.task_always_eager
            and not conf.task_send_sent_event
            and not listened()
            and app.current_worker_task is None
            and type(amqp) is celerys_amqp.AMQP
            and type(amqp.router) is celerys_routes.Router
            and all(type(route) is celerys_routes.MapRoute for route in getattr(amqp.router, "routes"))  # noqa: B009 - unknown to the stubs
            and _own(type(app).send_task, celerys_base)
            and "send_task" not in vars(app)
            and _own(amqp.send_task_message, celerys_amqp)
            and _own(celerys_amqp.AMQP.as_task_v2, celerys_amqp)
            and _own(celerys_task.Task.apply_async, celerys_task)
        )

    def publish(self, message: Message, producer: Any) -> None:
        """Publish what Celery would. Raises what Celery raises."""
        key = _key(message)
        known = self._known.get(key) if key is not None else None
        if key is not None and known is not None and not self._holds(known, message):
            self._forget(key)
            known = None
        if key is None or known is None or not known.trusted:
            body, options = self._recorded(key, known, message, producer)
            producer.publish(body, **options)
            return
        body, options = self._told(known, message)
        if self._declared[0] is not producer:
            self._declared = (producer, set())
        if key in self._declared[1]:
            options["declare"] = []
        producer.publish(body, **options)
        # From now on kombu would look at each of them, and find it declared.
        if all(getattr(entity, "can_cache_declaration", False) for entity in known.kwargs["declare"] or ()):
            self._declared[1].add(key)

    def _recorded(self, key: tuple[Any, ...] | None, known: _Template | None, message: Message, producer: Any) -> Call:
        recorder = Recorder(producer.connection)
        self._through(message, recorder)
        if recorder.call is None:
            raise TypeError(f"{message.task}: Celery published nothing")
        if key is not None and (known is not None or key not in self._known):
            self._learn(key, known, message, recorder.call)
        return recorder.call

    def _learn(self, key: tuple[Any, ...], known: _Template | None, message: Message, call: Call) -> None:
        made = self._made(message, call)
        if made is not None and known is not None:
            made = replace(made, trusted=True) if _same(self._told(known, message), call) else None
        self._known[key] = made
        while len(self._known) > _MOST:
            self._forget(next(iter(self._known)))

    def _forget(self, key: tuple[Any, ...]) -> None:
        del self._known[key]
        self._declared[1].discard(key)

    def _holds(self, known: _Template, message: Message) -> bool:
        """Whether the task was not registered anew since, nor changed in what Celery looks at each time."""
        return all(one is other for one, other in zip(known.source, self._source(message.task), strict=True))

    def _source(self, name: str) -> tuple[Any, ...]:
        task = self._app.tasks.get(name)
        return self._app.amqp.router, task, *(getattr(task, field, None) for field in _OF_TASK)

    def _made(self, message: Message, call: Call) -> _Template | None:
        task = self._app.tasks.get(message.task)
        if task is not None and not _plain(task):
            return None
        body, kwargs = call
        headers = {key: value for key, value in kwargs["headers"].items() if key not in message.headers}
        if not {*_IDS, *_OF_ARGUMENTS} <= headers.keys():
            return None  # a header of the schedule's takes the place of Celery's
        if headers.get("eta") or headers.get("expires") or "expiration" in kwargs or len(body) != 3:
            return None
        if kwargs.get("correlation_id") != message.task_id:
            return None
        return _Template(
            headers=headers,
            ids=tuple(name for name in _IDS if headers[name] == message.task_id),
            kwargs=kwargs,
            embed=body[2],
            source=self._source(message.task),
            check=getattr(task, "__header__", None) if task is not None and task.typing else None,
        )

    def _told(self, known: _Template, message: Message) -> Call:
        args: Any = list(message.args)
        if known.check is not None:
            known.check(*args, **message.kwargs)
        args, kwargs = args or (), dict(message.kwargs)
        headers = dict(known.headers)
        for name in known.ids:
            headers[name] = message.task_id
        headers["argsrepr"], headers["kwargsrepr"] = self._shown(args), self._shown(kwargs)
        headers.update(message.headers)
        publish = dict(known.kwargs)
        publish["headers"], publish["correlation_id"] = headers, message.task_id
        return (args, kwargs, known.embed), publish

    def _shown(self, arguments: Any) -> str:
        if not arguments:
            return repr(arguments)
        if self._repr is None:
            self._repr = _representing(self._app)
        return self._repr(arguments)


def _representing(app: Celery) -> Callable[[Any], str]:
    """Celery's own, with the bounds that the app sets."""
    show: Callable[..., str] = getattr(celerys_amqp, "saferepr")  # noqa: B009 - unknown to the stubs
    most = app.amqp.argsrepr_maxsize
    levels = getattr(app.conf, "task_repr_maxlevels", None)
    if levels is None or "maxlevels" not in inspect.signature(show).parameters:
        return lambda arguments: show(arguments, most)
    return lambda arguments: show(arguments, most, maxlevels=levels)


def _key(message: Message) -> tuple[Any, ...] | None:
    """Messages of one key may share a template. None: it is of a kind of its own."""
    options = message.options
    if "ignore_result" in message.headers:
        return None
    # By the names of the headers, too: one of them may have taken the place of Celery's.
    if not options:
        return message.task, "", tuple(message.headers), threading.get_ident()
    if all(type(value) in _SIMPLE for value in options.values()):
        return message.task, repr(options), tuple(message.headers), threading.get_ident()
    return None


def _same(one: Call, other: Call) -> bool:
    """Also in the order of what is serialised, which dictionaries do not compare."""
    return one == other and list(one[1]) == list(other[1]) and list(one[1]["headers"]) == list(other[1]["headers"])


def _plain(task: Any) -> bool:
    """Whether sending this task runs no code of the user's that could look at the arguments."""
    kind = type(task)
    return (
        _own(kind.apply_async, celerys_task)
        and _own(kind.shadow_name, celerys_task)
        and not {"apply_async", "shadow_name"} & vars(task).keys()
        and not getattr(task, "__v2_compat__", False)
        and getattr(task, "_dump_pydantic_arguments", None) is None
        and not (task.soft_time_limit and task.time_limit and task.soft_time_limit > task.time_limit)
    )


def _own(function: Any, module: Any) -> bool:
    """Whether this is a function of that module's, and not one that somebody has put in its place."""
    function = getattr(function, "__func__", function)
    return type(function) is FunctionType and function.__globals__ is vars(module)
