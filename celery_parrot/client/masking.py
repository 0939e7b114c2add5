"""Schedules as others may see them: on screens, over HTTP, in logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

_TELLING: Final = frozenset({"callbacks", "failure_callbacks", "missed_callbacks", "send_result"})
_HARMLESS: Final = frozenset(
    {"type", "name", "to", "recipients", "subject", "task", "path", "timeout", "include_result"}
)
_MASK: Final = "…"


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
            return f"{urlsplit(value).scheme}://{urlsplit(value).hostname}/{_MASK}"
        except ValueError:
            return _MASK
    return _MASK


def has_mask(field: str, value: Any) -> bool:
    """Whether it holds what :func:`without_secrets` left in place of a secret: saved, the secret would be lost."""
    if field not in _TELLING:
        return False
    if isinstance(value, Mapping):
        return any(has_mask(field, one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(has_mask(field, one) for one in value)
    return isinstance(value, str) and (value == _MASK or value.endswith(f"/{_MASK}"))
