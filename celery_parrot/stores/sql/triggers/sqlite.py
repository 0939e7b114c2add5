"""SQLite: its triggers cannot change the row on its way, so they update it afterwards. They do not fire themselves."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.database.types import NOW_SQL, SQLITE
from celery_parrot.stores.sql.triggers.columns import ANEW_POLICY, DEFINITION, WHEN_POLICY

NAMES = (
    "service_scheduler_on_insert",
    "service_scheduler_on_define",
    "service_scheduler_on_move",
    "service_scheduler_on_anew",
    "service_scheduler_on_delete",
    "service_scheduler_on_insert_spelling",
    "service_scheduler_on_update_spelling",
)
_NOW = NOW_SQL[SQLITE]
_WHEN = ("schedule_type", "enabled")


def _json(expression: str, key: str | None = None) -> str:
    """JSON less its spacing, or one key of it; what is no JSON as it is."""
    read = f"json({expression})" if key is None else f"json_extract({expression}, '$.{key}')"
    return f"(CASE WHEN json_valid({expression}) THEN {read} ELSE {expression} END)"


def _differs(columns: Sequence[str], policy: Sequence[str] = ()) -> str:
    parts = [f'NEW."{column}" IS NOT OLD."{column}"' for column in columns]
    parts += [f"{_json('NEW.policy', key)} IS NOT {_json('OLD.policy', key)}" for key in policy]
    return " OR ".join(parts)


_DEFINED = _differs(DEFINITION)
_RESUMED = "(OLD.disabled_by IS NOT NULL AND NEW.disabled_by IS NULL AND NEW.last_due IS OLD.last_due)"
_MOVED = (
    f"({_differs(_WHEN, WHEN_POLICY)} OR {_json('NEW.schedule_config')} IS NOT {_json('OLD.schedule_config')} "
    f"OR {_RESUMED})"
)
_CLEARED = (
    "(NEW.next_run IS NULL AND OLD.next_run IS NOT NULL AND NEW.last_due IS OLD.last_due "
    "AND NEW.broken_reason IS OLD.broken_reason)"
)
_ANEW = f"({_CLEARED} OR {_differs((), ANEW_POLICY)} OR (OLD.broken_reason IS NOT NULL AND ({_DEFINED})))"
_UNDECIDED = f"(OLD.enabled AND OLD.broken_reason IS NULL AND (OLD.next_run IS NULL OR OLD.next_run <= {_NOW}))"
_NOTE = "INSERT INTO service_scheduler_change (schedule_id, target_kind, changed_at, enabling"
_OLD = {
    "old_name": "name",
    "old_type": "schedule_type",
    "old_config": "schedule_config",
    "old_policy": "policy",
    "old_created_at": "created_at",
    "old_mark": "last_due",
    "old_held": "disabled_by",
}


def _move() -> str:
    old = ", ".join(f"CASE WHEN {_UNDECIDED} THEN OLD.{column} END" for column in _OLD.values())
    return (
        f"{_NOTE}, {', '.join(_OLD)}) SELECT NEW.schedule_id, NEW.target_kind, {_NOW}, NOT coalesce(OLD.enabled, 0), "
        f"{old}; UPDATE service_scheduler SET next_run = NULL, "
        f"last_due = max(coalesce(NEW.last_due, ''), coalesce(OLD.last_due, ''), {_NOW}) WHERE rowid = NEW.rowid;"
    )


def _spelling(column: str) -> str:
    """Instants sort as text only if they are all spelled alike; what is no instant goes."""
    like = "'[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*'"
    zoned = f"(instr(substr({column}, 11), '+') OR instr(substr({column}, 11), '-') OR {column} LIKE '%z')"
    good = f"({column} IS NULL OR ({column} GLOB {like} AND NOT {zoned}))"
    return f"CASE WHEN {good} THEN {column} ELSE strftime('%Y-%m-%d %H:%M:%f', {column}) || '000' END"


def create(schema: str | None) -> list[str]:
    """The statements that install the triggers. An attached database is not supported as schema."""
    define = ", ".join(f'"{column}"' for column in DEFINITION)
    when = 'schedule_type, schedule_config, "enabled", policy, disabled_by'
    respell = (
        f"UPDATE service_scheduler SET next_run = {_spelling('NEW.next_run')}, last_due = {_spelling('NEW.last_due')} "
        "WHERE rowid = NEW.rowid;"
    )
    odd = " OR ".join(f"NEW.{column} IS NOT {_spelling(f'NEW.{column}')}" for column in ("next_run", "last_due"))
    bodies = (
        f"AFTER INSERT ON service_scheduler BEGIN {_NOTE}) VALUES (NEW.schedule_id, NEW.target_kind, {_NOW}, 0); END",
        f"AFTER UPDATE OF {define} ON service_scheduler WHEN {_DEFINED} BEGIN UPDATE service_scheduler SET "
        f"version = max(NEW.version, OLD.version + 1), updated_at = {_NOW}, broken_reason = NULL "
        "WHERE rowid = NEW.rowid; END",
        f"AFTER UPDATE OF {when} ON service_scheduler WHEN {_MOVED} BEGIN {_move()} END",
        f"AFTER UPDATE OF {define}, next_run ON service_scheduler WHEN NOT {_MOVED} AND {_ANEW} "
        f"BEGIN {_NOTE}) VALUES (NEW.schedule_id, NEW.target_kind, {_NOW}, NOT coalesce(OLD.enabled, 0)); "
        "UPDATE service_scheduler SET next_run = NULL WHERE rowid = NEW.rowid; END",
        "AFTER DELETE ON service_scheduler BEGIN "
        "DELETE FROM service_scheduler_change WHERE schedule_id = OLD.schedule_id; END",
        f"AFTER INSERT ON service_scheduler WHEN {odd} BEGIN {respell} END",
        f"AFTER UPDATE OF next_run, last_due ON service_scheduler WHEN {odd} BEGIN {respell} END",
    )
    statements: list[str] = []
    for name, body in zip(NAMES, bodies, strict=True):
        statements += [f"DROP TRIGGER IF EXISTS {name}", f"CREATE TRIGGER {name} {body}"]
    return statements
