"""A scene whose schedule wants everything told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.schedule import TELLS_ALL
from celery_parrot.protocols import (
    About,
    CallbackReport,
    Deliveries,
    DeliveryReport,
    DeliveryStatus,
    FinishVerdict,
    Parcel,
    StartVerdict,
)
from celery_parrot.protocols.holding import Held, Holding, Release
from celery_parrot.testing.conformance.scene import Backend, Scene


class TellingScene(Scene):
    """Fires of ``a`` follow each other: the mark of the next is the due time of the last."""

    def __init__(self, coordinator: Any, backend: Backend) -> None:
        super().__init__(coordinator, backend)
        assert isinstance(coordinator, Deliveries)
        assert isinstance(coordinator, Holding)
        self.parcels: Deliveries = coordinator
        self.holding: Holding = coordinator
        self.mark = 0.0

    # --- fires ---

    def started(self, *due: float, tells: Sequence[str] = TELLS_ALL, **plan: Any) -> None:
        """These run, each under the token ``t`` and its number."""
        self.register()
        assert len(self.commit(*due, mark=self.mark, tells=tells, **plan).fires) == len(due)
        self.mark = max(due)
        self.confirm(*(self.hold(n) for n in due))
        for n in due:
            assert self.start(n, f"t{n}").verdict is StartVerdict.RUN

    def ended(self, n: float, status: Status = Status.SUCCESS, **outcome: Any) -> None:
        """It ran, and ended so."""
        self.started(n)
        assert self.finish(n, f"t{n}", status, **outcome).verdict is FinishVerdict.RECORDED

    def failed(self, *due: float) -> None:
        for n in due:
            self.ended(n, Status.ERROR, error=f"ValueError: {n}")

    # --- parcels ---

    def queue(self, owner: str = "b1") -> list[Parcel]:
        """All that this beat may take."""
        return list(self.parcels.parcels(owner, 100))

    def queued(self, owner: str = "b1") -> list[tuple[float, About]]:
        """The same, as the number of the due time and what it is about."""
        return [((one.due_at - self.base).total_seconds() / 60, one.about) for one in self.queue(owner)]

    def alerts(self) -> list[Parcel]:
        alerts = [one for one in self.queue() if one.about is About.ALERT]
        return sorted(alerts, key=lambda one: one.due_at)

    def parcel(self, n: float = 1, about: About = About.MISSED, **changes: Any) -> Parcel:
        """One that a database decided."""
        given = {"status": Status.MISSED, "queued_at": self.due(0), **changes}
        return Parcel(id=f"f{n}:{about}", fire_id=f"f{n}", key=self.key(n), name="a", about=about, **given)

    def report(self, n: float = 1, about: About = About.SUCCESS, **changes: Any) -> None:
        """Say what became of the parcel about this fire."""
        record = self.record(n)
        self.parcels.report([told(record.fire_id, self.key(n), about, **changes)])

    # --- holds ---

    def held(self) -> Held:
        return self.holding.holds(["a"])["a"]

    def resume(self) -> None:
        release = Release(
            schedule_id="a", name="a", kind="task", expected_mark=self.due(self.mark), new_mark=self.due(self.mark)
        )
        assert self.holding.release([release])[0] == "committed"


def told(
    fire_id: str,
    key: FireKey,
    about: About = About.SUCCESS,
    status: DeliveryStatus = DeliveryStatus.DELIVERED,
    tries: int = 1,
    callbacks: Sequence[CallbackReport] = (),
) -> DeliveryReport:
    """A report."""
    return DeliveryReport(
        parcel_id=f"{fire_id}:{about}",
        fire_id=fire_id,
        key=key,
        about=about,
        status=status,
        callbacks=tuple(callbacks),
        tries=tries,
    )
