"""What is shown on a screen, where others look on and logs are kept, without its passwords.

Celery's report, and ``inspect conf``, hide settings by their names and do not know which of ours hold passwords.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

_TELLING: Final = frozenset({"callbacks", "failure_callbacks", "missed_callbacks", "send_result"})
_HARMLESS: Final = frozenset(
    {"type", "name", "to", "recipients", "subject", "task", "path", "timeout", "include_result"}
)


def without_secrets(field: str, value: Any) -> Any:
    """The value of a schedule's field as it may be shown: of callbacks, whom they tell and not how they prove it.
    ``export`` and ``--json`` have the whole."""
    if field not in _TELLING:
        return value
    if isinstance(value, Mapping):
        return {key: _shown(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(field, one) for one in value]
    return value


def _shown(key: str, value: Any) -> Any:
    if key in _HARMLESS:
        return value
    if key == "url" and isinstance(value, str) and value.startswith(("https://", "http://")):
        try:
            return f"{urlsplit(value).scheme}://{urlsplit(value).hostname}/…"
        except ValueError:
            return "…"
    return "…"


def mask_our_urls() -> None:
    """Have Celery hide ``parrot_*_url`` and ``parrot_*_options`` too. Imports nothing: whoever can show settings has
    that module already."""
    utils = sys.modules.get("celery.app.utils")
    hidden = getattr(utils, "HIDDEN_SETTINGS", None)
    if isinstance(hidden, re.Pattern) and "PARROT_" not in hidden.pattern:
        ours = re.compile(rf"{hidden.pattern}|PARROT_\w*(URL|OPTIONS)", hidden.flags)
        setattr(utils, "HIDDEN_SETTINGS", ours)  # noqa: B010
