"""Which columns are a definition, and which parts of it decide due times."""

from __future__ import annotations

DEFINITION = (
    "target_kind",
    "target_name",
    "target_id",
    "tenant",
    "prompt",
    "method_name",
    "schedule_type",
    "schedule_config",
    "enabled",
    "metadata",
    "send_result",
    "callbacks",
    "name",
    "args",
    "options",
    "policy",
)

WHEN_POLICY = ("timezone", "start_at", "end_at", "dst_gap", "dst_fold")
"""Keys of ``policy`` whose edit is an edit of *when*."""

ANEW_POLICY = ("jitter", "max_fires")
"""Keys of ``policy`` that move no mark, but the next sending instant."""
