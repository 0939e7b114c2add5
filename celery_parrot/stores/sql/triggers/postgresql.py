"""PostgreSQL: functions in the table's own schema, run as its owner, whatever the client's search path."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.stores.sql.triggers.columns import ANEW_POLICY, DEFINITION, WHEN_POLICY

NAMES = ("service_scheduler_on_insert", "service_scheduler_on_update", "service_scheduler_on_delete")


def _row(prefix: str, columns: Sequence[str], policy: Sequence[str] = ()) -> str:
    parts = [f"{prefix}.{column}" for column in columns] + [f"{prefix}.policy->'{key}'" for key in policy]
    return f"({', '.join(parts)})"


def _differs(columns: Sequence[str], policy: Sequence[str] = ()) -> str:
    return f"{_row('NEW', columns, policy)} IS DISTINCT FROM {_row('OLD', columns, policy)}"


_WHEN = ("schedule_type", "schedule_config", "enabled")

_INSERT = """
BEGIN
  EXECUTE 'INSERT INTO ' || quote_ident(TG_TABLE_SCHEMA) || '.service_scheduler_change'
    || ' (schedule_id, target_kind, changed_at) VALUES ($1, $2, $3)'
    USING NEW.schedule_id, NEW.target_kind, clock_timestamp();
  PERFORM pg_notify(left('parrot_' || TG_TABLE_SCHEMA, 63), '');
  RETURN NULL;
END
"""

_UPDATE = f"""
DECLARE
  instant timestamptz := clock_timestamp();
  defined boolean := {_differs(DEFINITION)};
  resumed boolean := OLD.disabled_by IS NOT NULL AND NEW.disabled_by IS NULL
    AND NEW.last_due IS NOT DISTINCT FROM OLD.last_due;
  moved boolean := {_differs(_WHEN, WHEN_POLICY)} OR resumed;
  cleared boolean := NEW.next_run IS NULL AND OLD.next_run IS NOT NULL
    AND NEW.last_due IS NOT DISTINCT FROM OLD.last_due
    AND NEW.broken_reason IS NOT DISTINCT FROM OLD.broken_reason;
  anew boolean := cleared OR {_differs((), ANEW_POLICY)} OR (defined AND OLD.broken_reason IS NOT NULL);
  undecided boolean := moved AND OLD.enabled AND OLD.broken_reason IS NULL
    AND (OLD.next_run IS NULL OR OLD.next_run <= instant);
BEGIN
  IF defined THEN
    NEW.version := greatest(NEW.version, OLD.version + 1);
    NEW.updated_at := instant;
    NEW.broken_reason := NULL;
  END IF;
  IF moved THEN
    NEW.last_due := greatest(NEW.last_due, OLD.last_due, instant);
  END IF;
  IF moved OR anew THEN
    NEW.next_run := NULL;
    IF undecided THEN
      EXECUTE 'INSERT INTO ' || quote_ident(TG_TABLE_SCHEMA) || '.service_scheduler_change (schedule_id, target_kind,'
        || ' changed_at, enabling, old_name, old_type, old_config, old_policy, old_created_at, old_mark, old_held)'
        || ' VALUES ($1, $2, $3, false, $4, $5, $6, $7, $8, $9, $10)'
        USING NEW.schedule_id, NEW.target_kind, instant, OLD.name, OLD.schedule_type, OLD.schedule_config::text,
          OLD.policy::text, OLD.created_at, OLD.last_due, OLD.disabled_by;
    ELSE
      EXECUTE 'INSERT INTO ' || quote_ident(TG_TABLE_SCHEMA) || '.service_scheduler_change'
        || ' (schedule_id, target_kind, changed_at, enabling) VALUES ($1, $2, $3, $4)'
        USING NEW.schedule_id, NEW.target_kind, instant, OLD.enabled IS NOT TRUE;
    END IF;
  END IF;
  IF defined OR moved OR anew THEN
    PERFORM pg_notify(left('parrot_' || TG_TABLE_SCHEMA, 63), '');
  END IF;
  RETURN NEW;
END
"""

_DELETE = """
BEGIN
  EXECUTE 'DELETE FROM ' || quote_ident(TG_TABLE_SCHEMA) || '.service_scheduler_change WHERE schedule_id = $1'
    USING OLD.schedule_id;
  PERFORM pg_notify(left('parrot_' || TG_TABLE_SCHEMA, 63), '');
  RETURN NULL;
END
"""


def create(schema: str | None) -> list[str]:
    """The statements that install the triggers."""
    prefix = "" if schema is None else '"' + schema.replace('"', '""') + '".'
    statements: list[str] = []
    for name, when, body in zip(
        NAMES, ("AFTER INSERT", "BEFORE UPDATE", "AFTER DELETE"), (_INSERT, _UPDATE, _DELETE), strict=True
    ):
        statements += [
            f"CREATE OR REPLACE FUNCTION {prefix}{name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
            f"SET search_path = pg_catalog, pg_temp AS $parrot${body}$parrot$",
            f"DROP TRIGGER IF EXISTS {name} ON {prefix}service_scheduler",
            f"CREATE TRIGGER {name} {when} ON {prefix}service_scheduler FOR EACH ROW EXECUTE FUNCTION {prefix}{name}()",
        ]
    return statements
