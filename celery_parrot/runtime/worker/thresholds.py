"""How long a fire may be silent or wait in a queue, as this worker's own settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from celery_parrot.model.schedule import Kind


@dataclass(frozen=True, slots=True)
class Thresholds:
    """:ivar kinds: seconds of each declared kind (its ``reap_after``, or ``parrot_reap_after``).
    :ivar reap_after: seconds of every other (``parrot_reap_after``)."""

    kinds: Mapping[str, float] = field(default_factory=dict)
    reap_after: float = 900.0

    @classmethod
    def of(cls, kinds: Mapping[str, Kind], reap_after: float) -> Thresholds:
        """Those of ``parrot_kinds``."""
        declared = {name: kind for name, kind in kinds.items() if kind.declared}
        seconds = {name: reap_after if kind.reap_after is None else kind.reap_after for name, kind in declared.items()}
        return cls(seconds, reap_after)

    def silent_after(self, kind: str) -> float | None:
        """Seconds without a sign of progress after which a running fire is reaped. None for the built-in kind, and for
        one that only others have declared."""
        return self.kinds.get(kind)

    def deadline(self, kind: str, start: datetime) -> datetime:
        """Until when an attempt that may start at ``start`` must have started."""
        return start + timedelta(seconds=self.kinds.get(kind, self.reap_after))
