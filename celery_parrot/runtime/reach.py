"""Where things are, and that they cannot be reached, for people: addresses without passwords, one sentence."""

from __future__ import annotations

import re
from typing import Final

from celery_parrot.errors import Unreachable
from celery_parrot.runtime.config import Settings

_ADDRESS: Final = re.compile(r"^\w[\w+]*://\S*: ")
"""How an error of the coordinator begins; the sentence around it names the address already."""


def coordinator_at(settings: Settings) -> str:
    """The coordinator, for a sentence."""
    if settings.coordination == "db":
        return f"the database {settings.database}"
    return "the coordinator" if settings.redis is None else f"Redis at {settings.redis}"


def out_of_reach(settings: Settings, error: Unreachable) -> str:
    """What could not be asked, and why, with the address once."""
    cause = " ".join(str(error).split())
    if settings.database is not None and cause.startswith("database: "):
        return database_out_of_reach(f"The database at {settings.database}", error)
    return f"{coordinator_at(settings)} cannot be reached: {_ADDRESS.sub('', cause).rstrip('.')}."


def database_out_of_reach(where: str, error: Unreachable) -> str:
    """The same of a database. :param where: the beginning of the sentence."""
    cause = " ".join(str(error).split()).removeprefix("database: ").rstrip(".")
    # A server that answers that there is no such table has been reached.
    return f"{where} {'cannot be used' if 'db upgrade' in cause else 'cannot be reached'}: {cause}."
