"""The facade: one line wires the beats and the workers of an app."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from celery import Celery, signals

from celery_parrot.client import Schedules
from celery_parrot.clock import Clock
from celery_parrot.errors import ConfigurationError, ParrotError
from celery_parrot.protocols import ScheduleStore
from celery_parrot.runtime import clients, events, faults, reports
from celery_parrot.runtime.backends import attached, connect
from celery_parrot.runtime.config import Settings, load
from celery_parrot.runtime.decorated import Decorated
from celery_parrot.runtime.delivery import Reporter, add_callback, register
from celery_parrot.runtime.entries import Source
from celery_parrot.runtime.worker import LOGGER, Permits, Thresholds, install

if TYPE_CHECKING:
    from celery_parrot.runtime import wiring

logger = logging.getLogger("celery_parrot")

F = TypeVar("F", bound=Callable[..., Any])

_CELERYS_DEFAULT = "celery.beat:PersistentScheduler"


class Parrot:
    """celery-parrot for one app: ``parrot = Parrot(app)``, in the module that makes the app.

    Workers then open each fire before its task runs and record how it ended; beats use the parrot scheduler unless
    ``beat_scheduler`` names another; ``@parrot.schedule`` collects schedules. Nothing is read or connected here: the
    settings are checked when the app is configured and finalised, so that settings and tasks may follow this line.
    A setting that cannot work stops workers and beats at their start, with one sentence; here it raises
    :exc:`ConfigurationError` if the app is configured already.

    :param stores: further schedule stores, besides the code's and those of the settings. One named ``db`` or ``redis``
        takes the place of that of the settings.
    :param clock: this process's clock.
    :raises ParrotError: if the app has one already.
    """

    def __init__(
        self, app: Celery, stores: Sequence[ScheduleStore] | None = None, *, clock: Clock | None = None
    ) -> None:
        if parrot_of(app) is not None:
            raise ParrotError("this app has a Parrot already; make one for each app")
        self.app = app
        self.stores = tuple(stores or ())
        self.clock = clock or faults.clock()
        self._decorated = Decorated()
        self._settings: Settings | None = None
        self._error: ConfigurationError | None = None
        self._beat: wiring.Beat | None = None
        self._clients: dict[int, Schedules] = {}  # by process: a fork must not share connections
        if getattr(app, "configured", False):
            self._settings = load(app, attached=attached(self.stores))
            self._use_parrot()
        setattr(app, clients.ATTRIBUTE, self)
        app.on_after_configure.connect(self._on_configured, weak=False)
        app.on_after_finalize.connect(self._on_finalized, weak=False)
        if getattr(app, "finalized", False):
            self._on_finalized()

    @property
    def settings(self) -> Settings:
        """The settings, checked. Configures the app if it is not.

        :raises ConfigurationError: for the first that cannot work.
        """
        if self._error is not None:
            raise self._error
        if self._settings is None:
            self._settings = load(self.app, attached=attached(self.stores))
        return self._settings

    def schedule(self, when: object = None, **fields: Any) -> Callable[[F], F]:
        """Decorate a task with a schedule, as in ``@parrot.schedule("cron", expr="30 6 * * mon-fri")``.

        :param when: a schedule type (its config keys then follow as keyword arguments), or what Celery's ``schedule``
            key takes: seconds, a timedelta, a ``crontab``, …
        :param fields: the fields of a schedule (``name``, ``args``, ``kwargs``, ``options``, ``kind``, ``timezone``,
            ``missed``, …); everything else is config of the schedule type.

        Goes above or below ``@app.task``, and may be stacked. A function that is no task by the time the app is
        finalised becomes one. Without a ``name`` the first schedule of a task has the task's name and the next
        ``name#2``; the name is the schedule's identity, so give one where that may change.
        """
        return self._decorated.decorator(when, fields)

    def scan(self, obj: object, prefix: str | None = None) -> tuple[str, ...]:
        """Make tasks of the methods of ``obj`` that have ``@parrot.schedule``, bound to it, and schedule them.

        In the module that makes the object, which beats and workers alike import. The task of ``Reports.send`` in
        module ``app`` is ``app.Reports.send``; so is the schedule unless the decorator names it. With ``prefix`` they
        are ``prefix.send`` and ``prefix.name``: a second object of one class needs one. A class may be scanned for its
        static and class methods. Inherited methods count. To scan the same object again changes nothing.

        :returns: the names of the tasks.
        :raises ParrotError: if there is no such method, or another object has those names.
        """
        return self._decorated.scan(self.app, obj, prefix)

    def callback(self, name: str) -> Callable[[F], F]:
        """Register a function that callbacks of type ``name`` call as ``function(story, key, **options)``.

        :param name: what stands as ``type`` in ``callbacks``, ``failure_callbacks``, ``missed_callbacks``. The other
            fields of such a callback are the keyword arguments. ``story`` is the frozen
            :class:`~celery_parrot.protocols.Parcel`; ``key`` is the same however often this delivery is repeated.
            Returning is success; what it raises is recorded, and it is called again later.
        :raises ParrotError: for a name that is taken, or of a built-in type.
        """

        def add(function: F) -> F:
            add_callback(self.app, name, function)
            return function

        return add

    @property
    def schedules(self) -> Schedules:
        """Create, read, change, pause schedules: in any process that has the app (worker, web, shell). Connected when
        first asked, one connection a process.

        :raises ConfigurationError: as :attr:`settings`.
        """
        client = self._clients.get(os.getpid())
        if client is None:
            # No lock, which a fork could inherit locked: of several threads that ask first, one client stays.
            made = clients.schedules(self)
            client = self._clients.setdefault(os.getpid(), made)
            if client is not made:
                made.close()
        return client

    def tick(self) -> float:
        """Run one tick of a beat in this process, for those who drive it themselves; the seconds to sleep until the
        next, 0 if there is more to do at once. Sends what is due.

        :raises ConfigurationError: as :attr:`settings`.
        """
        return self.own_beat().tick()

    def close(self) -> None:
        """Leave, after :meth:`tick`: the other beats take over at once. Lets go of the connections of
        :attr:`schedules` too; both may be used again."""
        beat, self._beat = self._beat, None
        if beat is not None and beat.pid == os.getpid():
            beat.close(seconds=1.0)
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def beat(self) -> wiring.Beat:
        """A new beat with everything this app schedules. What the scheduler class of ``celery beat`` drives."""
        from celery_parrot.runtime import wiring  # what only a beat needs is loaded by beats only

        self.app.finalize()
        reports.warn(self._decorated.unbound(self.app))
        return wiring.beat(self.app, decorated=self.decorated(), stores=self.stores, clock=self.clock, guarded=True)

    def decorated(self) -> tuple[Source, ...]:
        """The schedules of ``@parrot.schedule`` and :meth:`scan`. Finalises the app."""
        self.app.finalize()
        return tuple(self._decorated.sources(self.app))

    # --- inside ---

    def own_beat(self) -> wiring.Beat:
        """The beat that :meth:`tick` drives in this process."""
        if self._beat is None or self._beat.pid != os.getpid():  # a fork must not share connections
            self._beat = self.beat()
        return self._beat

    def _use_parrot(self) -> None:
        if self.app.conf.beat_scheduler == _CELERYS_DEFAULT:
            self.app.conf.beat_scheduler = "parrot"

    def _on_configured(self, **_: Any) -> None:
        self._use_parrot()

    def _on_finalized(self, **_: Any) -> None:
        try:
            settings = self.settings
        except ConfigurationError as exc:
            # Celery logs and drops what a receiver raises; whoever needs the settings raises it again.
            self._error = exc
            return
        self._decorated.adopt(self.app)
        if settings.coordination == "none":
            return  # without a coordinator a fire's story ends when it is sent
        reporter = Reporter(lambda: connect(settings, self.clock))
        register(self.app, settings.delivery, reporter, self.clock, allowed=settings.allowed_tasks)
        install(
            self.app,
            lambda: connect(settings, self.clock),
            settings.namespace,
            unreachable=cast(Literal["hold", "run"], settings.unreachable),
            result_max_chars=settings.result_max_chars,
            lease=settings.lease_ttl,
            thresholds=Thresholds.of(settings.kinds, settings.reap_after),
            permits=Permits.of(settings.allowed_tasks, settings.kinds),
            clock=self.clock,
            events=events.sink(self.app, settings, self.clock, log=LOGGER),
        )


def parrot_of(app: Celery) -> Parrot | None:
    """The app's facade, if it has one."""
    return cast("Parrot | None", vars(app).get(clients.ATTRIBUTE))


# One receiver for all apps: to Celery 5.5 the same method of two objects is one receiver.
@signals.worker_init.connect(weak=False)
def _on_worker_init(sender: Any = None, **_ignored: Any) -> None:
    """A worker whose settings cannot work does not start."""
    parrot = parrot_of(sender.app)
    if parrot is None:
        return
    try:
        _ = parrot.settings
    except ConfigurationError as exc:
        logger.critical("%s", exc)
        raise SystemExit(1) from None


def beat_of(app: Celery) -> wiring.Beat:
    """A beat for ``app``, with or without a facade. Raises ConfigurationError."""
    from celery_parrot.runtime import wiring

    parrot = parrot_of(app)
    return wiring.beat(app) if parrot is None else parrot.beat()
