"""Where the database of schedules is: ``parrot_database_url``, and its schema and options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from celery_parrot.model.secrets import mask
from celery_parrot.runtime.conf_source import Source, closest, refuse

BACKENDS = ("postgresql", "postgres", "mysql", "mariadb", "sqlite")
"""What a database URL may begin with; a driver may follow after a plus sign."""

_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
_HOW = "Write it as postgresql://user:password@host:port/database (or mysql://…, sqlite:///file)."


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where the db store is. Its text form carries no password.

    :ivar url: with credentials. :ivar schema: where the tables are; None: the connection's default.
    :ivar options: further arguments of SQLAlchemy's ``create_engine``.
    """

    url: str = field(repr=False)
    schema: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return mask(self.url)

    @property
    def backend(self) -> str:
        """The first of the URL's words, without a driver: ``postgresql``, ``mysql``, …"""
        return _backend(self.url)


def database_address(source: Source) -> DatabaseAddress | None:
    """The address, or None where none is set. Raises ConfigurationError for one that cannot be used."""
    url = source.raw("parrot_database_url")
    schema = source.raw("parrot_database_schema")
    options = dict(source.mapping("parrot_database_options"))
    if url is None:
        for key, value in (("parrot_database_schema", schema), ("parrot_database_options", options)):
            if value:
                refuse(key, value, "says nothing without parrot_database_url", "Set parrot_database_url, or remove it.")
        return None
    if not isinstance(url, str):
        url = getattr(url, "render_as_string", lambda **_: url)(hide_password=False)  # SQLAlchemy's own URL object
    if not isinstance(url, str) or "://" not in url:
        refuse("parrot_database_url", url, "is not a database URL", _HOW)
    if _backend(url) not in BACKENDS:
        hint = closest(_backend(url), BACKENDS)
        refuse("parrot_database_url", url, f"{_backend(url)} is no database that is known here", f"{hint}{_HOW}")
    if schema is not None:
        if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
            refuse(
                "parrot_database_schema", schema, "is not a plain name", "Use letters, digits and _, e.g. 'navigator'."
            )
        if _backend(url) == "sqlite":
            refuse("parrot_database_schema", schema, "SQLite has no schemas", "Remove it.")
    return DatabaseAddress(url, schema, options)


def _backend(url: str) -> str:
    return url.partition("://")[0].partition("+")[0].strip().lower()
