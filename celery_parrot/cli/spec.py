"""From what a person types on one line to the config of a schedule type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import SCHEDULE_TYPES

_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(weeks?|w|days?|d|hours?|h|minutes?|min|m|seconds?|sec|s)", re.IGNORECASE)
_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def read_spec(schedule_type: str, text: str) -> Mapping[str, Any]:
    """The config that ``text`` stands for: a JSON object as it is, else the short form of the type.

    :raises InvalidSchedule: if it is neither; what it says inside is judged by ``triggers.build``.
    """
    text = text.strip()
    if text.startswith("{"):
        try:
            config = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidSchedule("SPEC", text, f"is not valid JSON ({error})") from None
        assert isinstance(config, dict)
        return config
    short = _SHORT_FORMS.get(schedule_type)
    if short is None:
        if schedule_type not in SCHEDULE_TYPES:
            raise InvalidSchedule("TYPE", schedule_type, f"must be one of {', '.join(SCHEDULE_TYPES)}")
        example = _JSON_EXAMPLES.get(schedule_type, '{"key": "value"}')
        raise InvalidSchedule("SPEC", text, f"must be a JSON object for {schedule_type}, such as '{example}'")
    return short(text)


def _cron(text: str) -> Mapping[str, Any]:
    # Six fields can only mean that the seconds come first, as in every tool that has them: it is said out loud here so
    # that the saved schedule will not leave it open.
    return {"expr": text, "seconds": "first"} if len(text.split()) == 6 else {"expr": text}


def _interval(text: str) -> Mapping[str, Any]:
    """``30``, ``90s``, ``1h30m``, ``2 hours``."""
    try:
        return {"seconds": float(text)}
    except ValueError:
        pass
    config: dict[str, float] = {}
    rest = _SPAN_PART.sub("", text)
    for amount, unit in _SPAN_PART.findall(text):
        key = _UNITS[unit[0].lower()]
        config[key] = config.get(key, 0.0) + float(amount)
    if rest.strip(" ,") or not config:
        raise InvalidSchedule("SPEC", text, "must be a number of seconds or a span such as 90s, 15m or 1h30m")
    return config


def _time(text: str) -> dict[str, Any]:
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidSchedule("SPEC", text, "must end in a time of day such as 9:30 or 23:59:30")
    hour, minute, second = match.groups()
    return {"hour": int(hour), "minute": int(minute), "second": int(second or 0)}


def _days_and_time(key: str, convert: Callable[[str], object]) -> Callable[[str], Mapping[str, Any]]:
    """``mon,thu 9:30`` or ``1,15 9:30``: days, then the time of day (midnight if there is none)."""

    def read(text: str) -> Mapping[str, Any]:
        words = text.split()
        time: dict[str, Any] = _time(words.pop()) if words and ":" in words[-1] else {}
        days = [convert(day) for day in re.split(r"[\s,]+", " ".join(words)) if day]
        if not days:
            return time
        return {key: days if len(days) > 1 else days[0], **time}

    return read


def _number_if_it_is_one(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return text  # a name, or something for the builder to refuse by its own rules


def _hours(text: str) -> Mapping[str, Any]:
    return {"n": _number_if_it_is_one(text.removesuffix("h").strip())}


_SHORT_FORMS: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "interval": _interval,
    "every_n_hours": _hours,
    "cron": _cron,
    "crontab": _cron,
    "daily": _time,
    "daily_at": _time,
    "weekly": _days_and_time("day_of_week", _number_if_it_is_one),
    "monthly": _days_and_time("day", _number_if_it_is_one),
    "once": lambda text: {"run_date": text},
    "one_shot_at": lambda text: {"fire_at_iso": text},
    "relative_delay": lambda text: {"delay": text},
    "rrule": lambda text: {"rule": text},
}

_JSON_EXAMPLES = {
    "random_within_window": '{"start_hour": 9, "end_hour": 17, "fires_per_day": 4}',
    "solar": '{"event": "sunrise", "lat": 40.4, "lon": -3.7}',
}
