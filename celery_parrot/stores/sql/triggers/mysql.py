"""MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.stores.sql.triggers.columns import ANEW_POLICY, DEFINITION, WHEN_POLICY

NAMES = ("service_scheduler_on_insert", "service_scheduler_on_update", "service_scheduler_on_delete")


def _same(columns: Sequence[str], policy: Sequence[str] = ()) -> str:
    parts = [f"NEW.`{column}` <=> OLD.`{column}`" for column in columns]
    parts += [f"{_key('NEW', key)} <=> {_key('OLD', key)}" for key in policy]
    return " AND ".join(parts)


def _key(row: str, key: str) -> str:
    # As text: MariaDB unquotes one side of a comparison of two extracted strings and not the other.
    return f"CAST(JSON_EXTRACT({row}.policy, '$.{key}') AS CHAR)"


_WHEN = ("schedule_type", "schedule_config", "enabled")


def _update(change: str) -> str:
    return f"""BEGIN
  DECLARE instant DATETIME(6) DEFAULT UTC_TIMESTAMP(6);
  DECLARE defined BOOLEAN DEFAULT NOT ({_same(DEFINITION)});
  DECLARE resumed BOOLEAN DEFAULT OLD.disabled_by IS NOT NULL AND NEW.disabled_by IS NULL
    AND NEW.last_due <=> OLD.last_due;
  DECLARE moved BOOLEAN DEFAULT resumed OR NOT ({_same(_WHEN, WHEN_POLICY)});
  DECLARE cleared BOOLEAN DEFAULT NEW.next_run IS NULL AND OLD.next_run IS NOT NULL
    AND NEW.last_due <=> OLD.last_due AND NEW.broken_reason <=> OLD.broken_reason;
  DECLARE anew BOOLEAN DEFAULT cleared OR NOT ({_same((), ANEW_POLICY)})
    OR (defined AND OLD.broken_reason IS NOT NULL);
  DECLARE undecided BOOLEAN DEFAULT moved AND COALESCE(OLD.enabled, 0) AND OLD.broken_reason IS NULL
    AND (OLD.next_run IS NULL OR OLD.next_run <= instant);
  IF defined THEN
    SET NEW.version = GREATEST(NEW.version, OLD.version + 1);
    SET NEW.updated_at = instant;
    SET NEW.broken_reason = NULL;
  END IF;
  IF moved THEN
    SET NEW.last_due = GREATEST(COALESCE(NEW.last_due, instant), COALESCE(OLD.last_due, instant), instant);
  END IF;
  IF moved OR anew THEN
    SET NEW.next_run = NULL;
    IF undecided THEN
      INSERT INTO {change} (schedule_id, target_kind, changed_at, enabling, old_name, old_type, old_config, old_policy,
        old_created_at, old_mark, old_held) VALUES (NEW.schedule_id, NEW.target_kind, instant, 0, OLD.name,
        OLD.schedule_type, OLD.schedule_config, OLD.policy, OLD.created_at, OLD.last_due, OLD.disabled_by);
    ELSE
      INSERT INTO {change} (schedule_id, target_kind, changed_at, enabling)
        VALUES (NEW.schedule_id, NEW.target_kind, instant, NOT COALESCE(OLD.enabled, 0));
    END IF;
  END IF;
END"""


def create(schema: str | None) -> list[str]:
    """The statements that install the triggers."""
    prefix = "" if schema is None else f"`{schema.replace('`', '``')}`."
    table, change = f"{prefix}service_scheduler", f"{prefix}service_scheduler_change"
    insert, update, delete = NAMES
    bodies = {
        insert: f"AFTER INSERT ON {table} FOR EACH ROW INSERT INTO {change} (schedule_id, target_kind, changed_at) "
        "VALUES (NEW.schedule_id, NEW.target_kind, UTC_TIMESTAMP(6))",
        update: f"BEFORE UPDATE ON {table} FOR EACH ROW {_update(change)}",
        delete: f"AFTER DELETE ON {table} FOR EACH ROW DELETE FROM {change} WHERE schedule_id = OLD.schedule_id",
    }
    statements: list[str] = []
    for name, body in bodies.items():
        statements += [f"DROP TRIGGER IF EXISTS {prefix}{name}", f"CREATE TRIGGER {prefix}{name} {body}"]
    return statements
