"""A Celery beat scheduler in which every beat is active.

``from celery_parrot import Parrot, current_fire, TargetMissing``. Importing the package is cheap: what needs Celery or
a driver is loaded when it is first asked for, because Celery imports the command group of this package on every call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from celery_parrot.__about__ import __version__
from celery_parrot.errors import (
    AlreadyRunning,
    ConfigurationError,
    Conflict,
    FireNotFound,
    GroupNotFound,
    InvalidSchedule,
    MemoryLost,
    ParrotError,
    ScheduleExists,
    ScheduleNotFound,
    StoreUnreachable,
    TargetMissing,
    Unreachable,
)

if TYPE_CHECKING:
    from celery_parrot.protocols.line import IN_FLIGHT_SKIP_OUTPUT_KEY
    from celery_parrot.runtime.current import CurrentFire, current_fire
    from celery_parrot.runtime.parrot import Parrot
    from celery_parrot.runtime.scheduler import ParrotScheduler

__all__ = [
    "IN_FLIGHT_SKIP_OUTPUT_KEY",
    "AlreadyRunning",
    "ConfigurationError",
    "Conflict",
    "CurrentFire",
    "FireNotFound",
    "GroupNotFound",
    "InvalidSchedule",
    "MemoryLost",
    "Parrot",
    "ParrotError",
    "ParrotScheduler",
    "ScheduleExists",
    "ScheduleNotFound",
    "StoreUnreachable",
    "TargetMissing",
    "Unreachable",
    "__version__",
    "current_fire",
]

_LATER = {
    "IN_FLIGHT_SKIP_OUTPUT_KEY": "celery_parrot.protocols.line",
    "CurrentFire": "celery_parrot.runtime.current",
    "Parrot": "celery_parrot.runtime.parrot",
    "ParrotScheduler": "celery_parrot.runtime.scheduler",
    "current_fire": "celery_parrot.runtime.current",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
