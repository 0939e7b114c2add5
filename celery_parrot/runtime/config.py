"""Every setting, read once at start-up and checked: one error that names the key, the value and the fix."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.fire import Namespace
from celery_parrot.model.schedule import Kind
from celery_parrot.protocols import Timing
from celery_parrot.runtime.conf_database import DatabaseAddress, database_address
from celery_parrot.runtime.conf_delivery import DeliverySettings, read_delivery
from celery_parrot.runtime.conf_kinds import read_kinds
from celery_parrot.runtime.conf_limits import read_groups, read_slots
from celery_parrot.runtime.conf_redis import RedisAddress, redis_address
from celery_parrot.runtime.conf_source import ENVIRONMENT, Source, closest, refuse
from celery_parrot.runtime.conf_tasks import read_allowed

logger = logging.getLogger("celery_parrot")

HEARTBEAT = 3.0
"""Seconds of silence after which a beat is taken for dead. Not a setting: all processes must agree."""

DEFAULT_GRACE = 300.0
"""``misfire_grace`` of a schedule in code or in the database that names none."""

COORDINATIONS = ("redis", "db", "none")

#: Known names that nothing in this release acts on yet. Set, they are reported, not silently taken.
NOT_YET = frozenset({
    "parrot_share_delay",
})  # fmt: skip

KNOWN = NOT_YET | {
    "parrot_name", "parrot_coordination", "parrot_redis_url", "parrot_redis_db", "parrot_redis_options",
    "parrot_database_url", "parrot_database_schema", "parrot_database_options",
    "parrot_kinds", "parrot_allowed_tasks", "parrot_exclusion_groups", "parrot_max_concurrent", "parrot_fire_lock_ttl",
    "parrot_run_now_lock_ttl",
    "parrot_on_time", "parrot_takeover_after",
    "parrot_lease_ttl", "parrot_reap_after", "parrot_reap_margin", "parrot_reap_interval", "parrot_sync_interval",
    "parrot_max_consecutive_failures", "parrot_result_max_chars", "parrot_history_days", "parrot_history_limit",
    "parrot_unreachable", "parrot_max_clock_skew", "parrot_send_events", "parrot_metrics_port",
    "parrot_http_read_only",
    "parrot_alert_recipients", "parrot_smtp_url", "parrot_mail_from", "parrot_delivery_queue", "parrot_webhook_allow",
    "parrot_file_root",
}  # fmt: skip
"""Every ``parrot_*`` setting there is."""

_NAME = re.compile(r"[^\s:{}*?\[\]\\]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an app is set to, checked. Durations in seconds unless the name says otherwise.

    :ivar name: the registered name (``parrot_name``); it is part of every key.
    :ivar redis: where Redis is; None where no URL is known. Its text form carries no password.
    :ivar database: where the db store is; None where no URL is set. No password in its text either.
    :ivar kinds: the declared kinds by name.
    :ivar allowed_tasks: what schedules may call.
    :ivar exclusion_groups: capacity of each group that has another than 1.
    :ivar max_consecutive_failures: so many failures in a row disable a schedule; 0: none ever does.
    :ivar max_concurrent: how many fires may be in flight at once; None: any number.
    :ivar warnings: what is odd but works, one sentence each.
    """

    name: str = "scheduler_manager"
    coordination: str = "none"
    redis: RedisAddress | None = None
    database: DatabaseAddress | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    allowed_tasks: AllowedTasks = EVERY_TASK
    exclusion_groups: Mapping[str, int] = field(default_factory=dict)
    max_concurrent: int | None = None
    on_time: float = 10.0
    takeover_after: float = 10.0
    lease_ttl: float = 15.0
    reap_after: float = 900.0
    reap_margin: float = 5.0
    reap_interval: float = 30.0
    sync_interval: float = 1.0
    share_delay: float = 0.05
    fire_lock_ttl: float = 86400.0
    run_now_lock_ttl: float = 3600.0
    max_consecutive_failures: int = 3
    result_max_chars: int = 4096
    history_days: float = 30.0
    history_limit: int = 1000
    unreachable: str = "hold"
    max_clock_skew: float = 5.0
    send_events: bool = False
    metrics_port: int | None = None
    http_read_only: bool = False
    delivery: DeliverySettings = field(default_factory=DeliverySettings)
    warnings: tuple[str, ...] = ()

    @property
    def namespace(self) -> Namespace:
        """What every key and fire id starts with."""
        return Namespace(self.name, hash_tag=self.redis is not None and self.redis.cluster)

    @property
    def timing(self) -> Timing:
        """The durations that the coordinator decides by."""
        return Timing(
            claim_ttl=self.fire_lock_ttl,
            takeover_after=self.takeover_after,
            heartbeat=HEARTBEAT,
            lease=self.lease_ttl,
            history_limit=self.history_limit,
            history_days=self.history_days,
            max_failures=self.max_consecutive_failures,
        )


def load(app: Celery, environ: Mapping[str, str] | None = None, *, attached: Iterable[str] = ()) -> Settings:
    """The settings of ``app``. Reading them configures the app, as reading any of Celery's does.

    :param environ: where absent settings are looked up; the process's environment unless given.
    :param attached: names of stores that were handed in and whose schedules all beats share.
    :raises ConfigurationError: for the first setting that cannot work.
    """
    source = Source(app, environ)
    _check_timezone(app)
    address, database = redis_address(source), database_address(source)
    shared = sorted({*attached, *(["db"] if database else [])})
    coordination = source.choice("parrot_coordination", COORDINATIONS, "redis" if address else "none")
    _check_coordination(source, coordination, address, database)
    overridden: tuple[str, ...] = ()
    if shared and coordination == "none":
        coordination, overridden = "redis", (_override(source, address, database, shared),)
    elif coordination == "db" and source.raw("parrot_redis_url") is not None:
        overridden = ("parrot_redis_url is set, but coordination is db: schedules in Redis are not read",)
    reap_after, reap_margin = source.number("parrot_reap_after", 900.0), source.number("parrot_reap_margin", 5.0)
    delivery = read_delivery(source)
    settings = Settings(
        name=_name(source),
        coordination=coordination,
        redis=address if coordination == "redis" else None,
        database=database,
        kinds=read_kinds(
            source.mapping("parrot_kinds"), coordination=coordination, reap_after=reap_after, reap_margin=reap_margin
        ),
        allowed_tasks=read_allowed(source),
        exclusion_groups=read_groups(source, coordination),
        max_concurrent=read_slots(source, coordination),
        on_time=source.number("parrot_on_time", 10.0, zero=True),
        takeover_after=source.number("parrot_takeover_after", 10.0),
        lease_ttl=source.number("parrot_lease_ttl", 15.0),
        reap_after=reap_after,
        reap_margin=reap_margin,
        reap_interval=source.number("parrot_reap_interval", 30.0),
        sync_interval=source.number("parrot_sync_interval", 1.0),
        share_delay=source.number("parrot_share_delay", 0.05, zero=True),
        fire_lock_ttl=source.number("parrot_fire_lock_ttl", 86400.0),
        run_now_lock_ttl=source.number("parrot_run_now_lock_ttl", 3600.0),
        max_consecutive_failures=source.integer("parrot_max_consecutive_failures", 3, least=0),
        result_max_chars=source.integer("parrot_result_max_chars", 4096, least=16),
        history_days=source.days("parrot_history_days", 30.0),
        history_limit=source.integer("parrot_history_limit", 1000),
        unreachable=source.choice("parrot_unreachable", ("hold", "run"), "hold"),
        max_clock_skew=source.number("parrot_max_clock_skew", 5.0),
        send_events=source.flag("parrot_send_events"),
        metrics_port=source.port("parrot_metrics_port"),
        http_read_only=source.flag("parrot_http_read_only"),
        delivery=delivery,
        warnings=(*_warnings(source), *overridden, *delivery.warnings),
    )
    _check_timers(source, settings)
    return settings


def check_graces(settings: Settings, graces: Mapping[str, float | None]) -> None:
    """A claim must outlive every grace, or a due time could be claimed twice.

    :param graces: ``misfire_grace`` of each schedule by name; None (never too late) is no finite grace.
    :raises ConfigurationError: naming the schedule with the longest.
    """
    finite = [(grace, name) for name, grace in graces.items() if grace is not None]
    if not finite:
        return
    grace, name = max(finite)
    if settings.fire_lock_ttl < grace:
        refuse(
            "parrot_fire_lock_ttl", settings.fire_lock_ttl,
            f"is shorter than the longest misfire_grace ({grace:g} s, {name})",
            f"Set it to at least {grace:g}, or shorten that grace.",
        )  # fmt: skip


def _name(source: Source) -> str:
    value = source.raw("parrot_name")
    if value is None:
        return "scheduler_manager"
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        refuse(
            "parrot_name", value, "must be a text without spaces and without : { } * ? [ ]",
            "Choose a name such as 'billing', the same in every process of this scheduler.",
        )  # fmt: skip
    return value


def _check_timezone(app: Celery) -> None:
    """Celery looks its zone up late, wherever it is first needed, and says so there with a traceback."""
    try:
        _ = app.timezone
    except Exception:
        value = app.conf.timezone
        refuse("timezone", value, "is no time zone", "Set an IANA name such as Europe/Madrid.")


def _check_coordination(
    source: Source, coordination: str, address: RedisAddress | None, database: DatabaseAddress | None
) -> None:
    label = source.label("parrot_coordination")
    if coordination == "db" and database is None:
        refuse(
            label, "db", "parrot_database_url is not set", "Set it, e.g. 'postgresql://user:password@host/database'."
        )
    if coordination == "redis" and address is None:
        refuse(
            label, "redis", "no Redis URL is known: neither parrot_redis_url is set nor is the broker a Redis",
            "Set parrot_redis_url, e.g. 'redis://host:6379/0'.",
        )  # fmt: skip


def _override(
    source: Source, address: RedisAddress | None, database: DatabaseAddress | None, shared: Sequence[str]
) -> str:
    """The warning that coordination is not ``none``, or a ConfigurationError where there is nothing else."""
    stores = " and ".join(shared)
    if address is None:
        key, value = (
            ("parrot_database_url", database.url) if database else (source.label("parrot_coordination"), "none")
        )
        refuse(
            key, value, f"schedules of the {stores} store are shared by all beats, and there is nothing for them to "
            "coordinate through",
            ("Set parrot_coordination = 'db', or " if database else "Set ")
            + "parrot_redis_url, e.g. 'redis://host:6379/0'.",
        )  # fmt: skip
    return (
        f"{source.label('parrot_coordination')} is none, but the schedules of the {stores} store are shared by all "
        f"beats: coordinating through Redis at {address}"
    )


def _check_timers(source: Source, settings: Settings) -> None:
    if settings.sync_interval >= HEARTBEAT:
        refuse(
            source.label("parrot_sync_interval"), settings.sync_interval,
            f"a beat that sleeps that long is taken for dead by the others after {HEARTBEAT:g} s",
            f"Set it below {HEARTBEAT:g}; 1 is usual.",
        )  # fmt: skip
    longer = {"parrot_takeover_after": settings.takeover_after, "parrot_lease_ttl": settings.lease_ttl}
    for key, value in longer.items():
        if settings.fire_lock_ttl <= value:
            refuse(
                source.label("parrot_fire_lock_ttl"), settings.fire_lock_ttl,
                f"a claim would end before {key} ({value:g} s) has passed", f"Set it well above {value:g}.",
            )  # fmt: skip
    if settings.reap_margin >= settings.reap_after:
        refuse(
            source.label("parrot_reap_margin"), settings.reap_margin,
            f"is not shorter than parrot_reap_after ({settings.reap_after:g} s)", "Make it shorter.",
        )  # fmt: skip
    graces: dict[str, float | None] = {"the default of code schedules": DEFAULT_GRACE}
    graces |= {f"parrot_kinds[{name!r}]": kind.misfire_grace for name, kind in settings.kinds.items()}
    check_graces(settings, graces)


def _warnings(source: Source) -> tuple[str, ...]:
    found: list[str] = []
    for name in sorted(source.names()):
        if name not in KNOWN:
            found.append(f"{name} is no setting of celery-parrot and has no effect. {closest(name, KNOWN)}".rstrip())
        elif name in NOT_YET and source.raw(name) not in (None, False):
            found.append(f"{name} is set, but nothing in this release uses it yet")
    for name in sorted(NOT_YET & ENVIRONMENT.keys()):
        if name not in source.names() and source.raw(name) is not None:
            found.append(f"{ENVIRONMENT[name]} is set, but nothing in this release uses it yet")
    return tuple(found)


def describe(settings: Settings) -> Mapping[str, Any]:
    """What the start-up banner and ``health`` say of the settings; no credentials."""
    where = str(settings.redis) if settings.redis else "this process only"
    if settings.coordination == "db":
        where = str(settings.database)
    facts = {"coordination": f"{settings.coordination} ({where})", "registered name": settings.name}
    if settings.database is not None:
        facts["database"] = str(settings.database)
    return facts
