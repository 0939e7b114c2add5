"""A space in tables: one transaction that has locked the row of the registered name."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, text, update

from celery_parrot.coordination.rules.claim import BEGINNING, Claim, Moment, Queued, ScheduleState
from celery_parrot.coordination.rules.space import Space
from celery_parrot.coordination.sql.beats import Beats
from celery_parrot.coordination.sql.claims import Claims
from celery_parrot.coordination.sql.history import History
from celery_parrot.coordination.sql.holds import Holds
from celery_parrot.coordination.sql.parcels import Parcels
from celery_parrot.coordination.sql.tables import Tables
from celery_parrot.coordination.sql.unit import Unit
from celery_parrot.database.types import POSTGRESQL, as_instant
from celery_parrot.model.fire import FireKey, FireRecord, Namespace
from celery_parrot.model.state import Beat
from celery_parrot.protocols import Carried, Limit, Parcel, Timing

_PRUNE_BATCH: Final = 5000
_INSTANTS: Final = ("touched", "judge_from", "beats_from", "quiet_until", "purged")
_OTHERS: Final = ("epoch", "made_on", "remembered", "mirror_of", "arrivals")


class SqlSpace(Space):
    """:ivar calls: how many operations of this name were committed before this one."""

    def __init__(
        self, connection: Connection, tables: Tables, namespace: Namespace, timing: Timing, row: Row[Any], now: datetime
    ) -> None:
        super().__init__(namespace, timing)
        self.now = now
        self.calls: int = row.calls
        for name in _INSTANTS:
            setattr(self, name, as_instant(getattr(row, name)) or BEGINNING)
        for name in _OTHERS:
            setattr(self, name, getattr(row, name))
        self.capacities = json.loads(row.capacities or "{}")
        self.remembered, self.mirror_of = bool(self.remembered), as_instant(self.mirror_of)
        self._unit = Unit(connection, tables, namespace, row.id, now, row.places)
        self._claims = Claims(self._unit, timing)
        self._holds = Holds(self._unit)
        self._history = History(self._unit)
        self._parcels = Parcels(self._unit)
        self._beats = Beats(self._unit)

    def save(self) -> None:
        """Write all that changed, and wake the beats if there is something for them."""
        self._claims.flush()
        self._holds.flush()
        self._history.flush()
        self._parcels.flush()
        self._beats.flush()
        spaces = self._unit.tables.spaces
        values = {name: getattr(self, name) for name in _OTHERS}
        values |= {name: at if (at := getattr(self, name)) != BEGINNING else None for name in _INSTANTS}
        values |= {"calls": self.calls + 1, "places": self._unit.places, "capacities": json.dumps(self.capacities)}
        self._unit.connection.execute(update(spaces).where(spaces.c.id == self._unit.space).values(values))
        if (
            self.named or self._claims.freed or self._history.freed
        ) and self._unit.connection.dialect.name == POSTGRESQL:
            self._notify()

    def _notify(self) -> None:
        """On the channel of the schema, as the triggers of the store's tables do; told when the transaction commits."""
        preparer = self._unit.connection.dialect.identifier_preparer
        self._unit.connection.execute(
            text(
                "SELECT pg_notify(left('parrot_' || relnamespace::regnamespace::name::text, 63), '') "
                "FROM pg_class WHERE oid = to_regclass(:name)"
            ),
            {"name": preparer.format_table(self._unit.tables.spaces)},
        )

    # --- claims ---

    def prefetch(self, keys: Iterable[FireKey] = (), schedules: Iterable[str] = ()) -> None:
        for key in keys:
            self._unit.hint(key)
        self._unit.hinted_schedules.update(dict.fromkeys(schedules))

    def find(self, key: FireKey) -> Claim | None:
        return self._claims.find(key)

    def put(self, claim: Claim) -> None:
        self._claims.put(claim)

    def changed(self, claim: Claim) -> None:
        self._claims.changed()

    def forget(self, key: FireKey) -> None:
        self._claims.forget(key)

    def soonest(self, moment: Moment, limit: int, *, holding: bool = False) -> Sequence[Claim]:
        return self._claims.soonest(moment, limit, holding)

    def forget_expired(self, limit: int) -> None:
        self._claims.forget_expired(limit)
        self._history.forget_before(self.now - timedelta(days=self.timing.history_days), _PRUNE_BATCH)

    def outbox_page(self, offset: int, limit: int) -> Sequence[Claim]:
        return self._claims.outbox_page(offset, limit)

    def owned_by(self, owner: str) -> Sequence[Claim]:
        return self._claims.owned_by(owner)

    def mirrored(self) -> Sequence[Claim]:
        return self._claims.mirrored(self.epoch)

    # --- limits ---

    def joined(self, claim: Claim) -> None:
        self._claims.joined(claim)

    def unqueue(self, claim: Claim) -> bool:
        return self._claims.unqueue(claim)

    def line(self, names: Collection[str] | None = None) -> Sequence[Claim]:
        return self._claims.turns.line(names)

    def line_page(self, offset: int, limit: int) -> Sequence[Claim]:
        return self._claims.turns.line_page(offset, limit)

    def wanted(self) -> Collection[tuple[Limit, ...]]:
        wanted = self._claims.turns.wanted()
        self._holds.expect(limit.name for limits in wanted for limit in limits)
        return wanted

    def first(self, limits: tuple[Limit, ...]) -> Claim | None:
        return self._claims.turns.first(limits)

    def waiting(self, name: str) -> int:
        return self._claims.turns.waiting(name)

    def holders(self, name: str) -> Mapping[FireKey, datetime]:
        return self._holds.holders(name)

    def hold(self, name: str, key: FireKey) -> None:
        self._holds.hold(name, key)

    def let_go(self, name: str, key: FireKey) -> None:
        self._holds.let_go(name, key)

    def held_limits(self) -> Sequence[str]:
        return self._holds.names()

    # --- schedules and history ---

    def state(self, schedule_id: str) -> ScheduleState | None:
        return self._history.state(schedule_id)

    def put_state(self, schedule_id: str, state: ScheduleState) -> None:
        self._history.put_state(schedule_id, state)

    def entry(self, key: FireKey) -> FireRecord | None:
        return self._history.entry(key)

    def asked(self, schedule_id: str, nonce: str) -> FireKey | None:
        return self._history.asked(schedule_id, nonce)

    def put_entry(self, record: FireRecord, keep: int) -> None:
        self._history.put_entry(record, keep)

    def strike(self, key: FireKey) -> None:
        self._history.strike(key)

    def history(self, schedule_id: str, since: datetime, before: datetime | None, limit: int) -> Sequence[FireRecord]:
        return self._history.read(schedule_id, since, before, limit)

    def carry(self, item: Carried) -> None:
        self._history.carry(item)

    def carrying(self, key: FireKey) -> Carried | None:
        return self._history.carrying(key)

    def carried(self, key: FireKey, serial: int) -> None:
        self._history.carried(key, serial)

    def uncarried(self, limit: int) -> Sequence[Carried]:
        return self._history.uncarried(limit)

    def count_uncarried(self) -> int:
        return self._history.count_uncarried()

    # --- parcels ---

    def add_parcel(self, queued: Queued) -> None:
        self._parcels.add(queued)

    def keep_parcel(self, queued: Queued) -> None:
        self._parcels.keep(queued)

    def queued_parcels(self, ids: Collection[str]) -> Mapping[str, Queued]:
        return self._parcels.queued(ids)

    def parcel_page(self, after: Parcel | None, limit: int) -> Sequence[Queued]:
        return self._parcels.page(after, limit)

    def count_parcels(self) -> int:
        return self._parcels.count()

    def sent_parcels(self, ids: Collection[str]) -> None:
        self._parcels.sent(ids)

    def forget_parcels(self, before: datetime) -> None:
        self._parcels.forget_before(before)

    # --- beats ---

    def seen(self, owner: str) -> datetime | None:
        return self._beats.seen(owner)

    def see(self, owner: str, beat: Beat | None = None) -> None:
        self._beats.see(owner, beat)

    def forget_beat(self, owner: str) -> None:
        self._beats.forget(owner)

    def forget_beats(self, before: datetime) -> None:
        self._beats.forget_before(before)

    def beats(self) -> Sequence[Beat]:
        return self._beats.beats()
