"""What the demo and the app of its children call things between themselves. Importing it costs nothing."""

from __future__ import annotations

DIRECTORY = "PARROT_DEMO_DIRECTORY"
REDIS = "PARROT_DEMO_REDIS"
SCHEDULER = "PARROT_DEMO_NAME"
START = "PARROT_DEMO_START"


def key_prefix(name: str) -> str:
    """What every key of the demo's broker begins with."""
    return f"{name}:"


JOURNAL = "journal.jsonl"
"""What the tasks write, in the demo's directory. See :mod:`.journal`."""
