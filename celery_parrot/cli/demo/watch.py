"""What the demo sees of its fires: the history of each schedule, read from the coordinator again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from celery_parrot.cli.demo.examples import Example
from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.protocols import Coordinator
from celery_parrot.triggers import actual_at

_RECENT = 40
_ALL = 1000


@dataclass(slots=True)
class Watch:
    """Collects every history entry it ever saw, so that a long run is counted whole although histories are capped.

    :ivar records: by fire id, as last seen.
    :ivar names: what to call a beat, by its owner id.
    """

    coordinator: Coordinator
    examples: Sequence[Example]
    records: dict[str, FireRecord] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def look(self, limit: int = _RECENT) -> list[FireRecord]:
        """Read again; returns what is new or has changed, by due time."""
        changed: list[FireRecord] = []
        for example in self.examples:
            for record in self.coordinator.fires(example.name, limit=limit):
                if self.records.get(record.fire_id) != record:
                    self.records[record.fire_id] = record
                    changed.append(record)
        return sorted(changed, key=lambda record: record.key)

    def look_at_all(self) -> list[FireRecord]:
        """As :meth:`look`, as far back as histories reach."""
        return self.look(_ALL)

    def living_pids(self) -> set[int]:
        """Process ids of the beats that have checked in. Learns what to call them by the way."""
        return {beat.pid for beat in self.coordinator.beats()}

    def learn_names(self, children: Mapping[int, str]) -> None:
        """Call the beat with a given process id as its child is called."""
        for beat in self.coordinator.beats():
            if beat.pid in children:
                self.names[beat.owner] = children[beat.pid]

    def now(self) -> datetime:
        """The coordinator's clock."""
        return self.coordinator.attach().now

    def recent(self, count: int) -> list[FireRecord]:
        """The ``count`` latest, latest last."""
        latest = sorted(self.records.values(), key=lambda record: (record.due_at, record.name))
        return latest[-count:] if count > 0 else []

    def on_the_way(self) -> list[FireRecord]:
        """Fires without an outcome."""
        return [record for record in self.records.values() if not record.status.terminal]

    def sent_by(self) -> Counter[str]:
        """How many fires each beat committed, by its name."""
        return Counter(self.names.get(record.beat, "") for record in self.records.values() if record.count == 1)

    def late_by(self, record: FireRecord) -> float | None:
        """Seconds from when it was to be sent (its share of the jitter included) to when it was."""
        at = record.sent_at or record.started_at
        if at is None:
            return None
        example = next(each for each in self.examples if each.name == record.key.schedule_id)
        planned = actual_at(example.trigger(), example.name, record.due_at, example.jitter)
        return (at - planned).total_seconds()

    def row(self, record: FireRecord) -> tuple[str, str, str, str, str, str]:
        """Due, name, status, lateness, beat, worker: as they are shown."""
        late = self.late_by(record)
        status = str(record.status)
        if record.status is Status.SENT and record.attempt > 1:
            status = "retrying"
        return (
            f"{record.due_at.astimezone():%H:%M:%S}",
            record.name,
            status,
            "" if late is None else f"{late * 1000:.0f} ms",
            self.names.get(record.beat, record.beat[:8]),
            record.worker.partition("@")[0],
        )

    def lateness(self) -> tuple[float, float] | None:
        """Median and 99th percentile of :meth:`late_by` over all fires; None without any."""
        values = sorted(late for record in self.records.values() if (late := self.late_by(record)) is not None)
        if not values:
            return None
        return values[len(values) // 2], values[min(len(values) - 1, len(values) * 99 // 100)]
