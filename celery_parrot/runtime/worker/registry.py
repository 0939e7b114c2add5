"""Which apps are hooked, and for which registered names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from celery_parrot.runtime.worker.installed import Installed

_apps: WeakKeyDictionary[Any, dict[str, Installed]] = WeakKeyDictionary()


def add(app: Any, installed: Installed) -> Installed | None:
    """Remember it for its app and name; returns the one it replaces."""
    of_app = _apps.setdefault(app, {})
    before = of_app.get(installed.namespace.name)
    of_app[installed.namespace.name] = installed
    return before


def find(app: Any, scheduler: str | None) -> Installed | None:
    """What was installed in ``app`` for this registered name."""
    if scheduler is None:
        return None
    of_app = _apps.get(app)
    return of_app.get(scheduler) if of_app is not None else None


def everything() -> list[Installed]:
    """Of every app and name."""
    return [installed for of_app in list(_apps.values()) for installed in of_app.values()]


def of(app: Any) -> list[Installed]:
    """Of one app, every name."""
    return list(_apps.get(app, {}).values())
