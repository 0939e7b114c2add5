"""What the stage is made of: kinds, and a thousand schedules that are due in hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from tests.e2e.flower.hostile import LONG, MARKUP, NAMES
from tests.support.waiting import wall_clock

#: Of the app; the viewer's is another.
ZONE: Final = "Europe/Madrid"
KINDS: Final = {
    "report": {"task": "stage.report"},
    "render": {"task": "stage.render"},
    "sync": {"task": "stage.sync"},
}

#: The lists, one a target, that a render takes an item from before it ends: one item, one end.
MAY_END: Final = "stage:may-end:"

#: The needle in the haystack.
WANTED: Final = "invoices of the north"
EDITED: Final = "edited by two people"
#: They exclude each other, for the scene; and those that stand there all the time, for the pictures.
RENDERS: Final = ("render a", "render b", "render c")
PLOTS: Final = ("plot x", "plot y")
FAILS: Final = "fails with hostile words"
ANSWERS: Final = "answers hostile words"
PAUSED: Final = "paused with hostile words"
#: All schedules but the one of the code.
HOW_MANY: Final = 1_000
PILED_UP: Final = 400


def schedules() -> list[dict[str, Any]]:
    """What happens in the tests is what they make happen: the first is due in two hours."""
    special = [
        _cron(WANTED, 3, kind="report", target="invoices"),
        *(_daily(name, 4, kind="render", target=name, exclusion_group="gpu") for name in RENDERS),
        *(_daily(name, 4, kind="render", target=name, exclusion_group=MARKUP[:255]) for name in PLOTS),
        _daily(FAILS, 5, kind="report", target="fail", kwargs={"fail": MARKUP + LONG}),
        _daily(ANSWERS, 5, kind="report", target="answer", kwargs={"answer": MARKUP + LONG}),
        _daily(EDITED, 3, kind="report", target="edited"),
        _daily(PAUSED, 5, kind="report", target="note"),
        *(
            _daily(name, 6, kind="report", target=MARKUP[:255], prompt=MARKUP + LONG, kwargs={MARKUP: LONG})
            for name in NAMES
        ),
    ]
    return [
        *special,
        *(_daily(f"nightly {n:04}", 8, target="stage.sync") for n in range(PILED_UP)),
        *(
            _daily(f"shop {n:04}", 2 + n % 18, 1 + n * 7 % 59, kind="report" if n % 3 else "task", target="stage.sync")
            for n in range(HOW_MANY - PILED_UP - len(special))
        ),
    ]


def _daily(name: str, in_hours: int, minute: int = 0, **fields: Any) -> dict[str, Any]:
    config = {"hour": _hour(in_hours), "minute": minute}
    return {"name": name, "store": "redis", "schedule_type": "daily", "schedule_config": config, **fields}


def _cron(name: str, in_hours: int, **fields: Any) -> dict[str, Any]:
    config = {"expr": f"0 {_hour(in_hours)} * * *"}
    return {"name": name, "store": "redis", "schedule_type": "cron", "schedule_config": config, **fields}


def _hour(in_hours: int) -> int:
    return (datetime.fromtimestamp(wall_clock(), UTC) + timedelta(hours=in_hours)).astimezone(ZoneInfo(ZONE)).hour
