"""A beat that ticks only when told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from celery_parrot.clock import new_id
from celery_parrot.dispatch.limits import Bounds
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.ticker import Identity, Ticker, TickSettings
from celery_parrot.model.fire import Namespace
from celery_parrot.model.schedule import Kind
from celery_parrot.protocols import Coordinator, EventSink, Message, RowStore, ScheduleStore, Sender
from celery_parrot.testing.clock import FakeClock
from celery_parrot.testing.events import RecordingEvents
from celery_parrot.testing.sender import RecordingSender


class ManualBeat:
    """The real tick over the coordinator and stores given, with a fake clock and a recording sender.

    :param coordinator: any coordinator; share it between beats to see them agree.
    :param stores: where the schedules are.
    :param rows: those of them whose rows decide.
    :param bounds: exclusion groups, slots and thresholds.
    :ivar sender: what reached the broker: ``beat.sender.sent``.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        stores: Sequence[ScheduleStore],
        *,
        clock: FakeClock,
        namespace: Namespace | None = None,
        kinds: Mapping[str, Kind] | None = None,
        sender: Sender | None = None,
        events: EventSink | None = None,
        settings: TickSettings | None = None,
        owner: str = "",
        rows: Sequence[RowStore] = (),
        bounds: Bounds | None = None,
    ) -> None:
        self.clock = clock
        self.sender = sender or RecordingSender()
        self.events = events or RecordingEvents()
        self.owner = owner or new_id()
        self.ticker = Ticker(
            coordinator=coordinator,
            stores=stores,
            sender=self.sender,
            router=Router(namespace or Namespace("test"), kinds or {}, bounds=bounds),
            clock=clock,
            events=self.events,
            identity=Identity(owner=self.owner, host="test", pid=0, version="test"),
            settings=settings or TickSettings(),
            rows=rows,
        )

    @property
    def sent(self) -> list[Message]:
        """The messages recorded so far (with the default sender)."""
        if not isinstance(self.sender, RecordingSender):
            raise TypeError("this beat sends through a sender of your own: ask that one")
        return self.sender.sent

    def tick(self) -> float:
        """One tick; the seconds it would sleep."""
        return self.ticker.tick()

    def run(self, seconds: float) -> None:
        """Tick through ``seconds`` of the clock, sleeping on it as a real beat would."""
        end = self.clock.monotonic() + seconds
        while True:
            pause = self.tick()
            left = end - self.clock.monotonic()
            if left <= 0:
                return
            self.clock.advance(min(max(pause, 0.001), left))

    def close(self) -> None:
        """Leave in good order."""
        self.ticker.close()
