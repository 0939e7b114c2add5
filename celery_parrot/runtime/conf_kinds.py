"""``parrot_kinds``: from the user's dictionary to :class:`~celery_parrot.model.schedule.Kind`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery_parrot.model.schedule import TASK_KIND, Kind
from celery_parrot.runtime.conf_limits import bad_name, capacity, group_name, needs_coordinator
from celery_parrot.runtime.conf_source import closest, number, refuse

KEYS = (
    "task", "queue", "max_in_flight", "exclusion_group", "reap_after", "progress", "time_limit", "soft_time_limit",
    "priority", "overlap", "misfire_grace",
)  # fmt: skip
"""What one kind may say."""

OVERLAPS = ("allow", "skip", "buffer_one", "buffer_all")


def read_kinds(
    kinds: Mapping[Any, Any], *, coordination: str, reap_after: float, reap_margin: float
) -> Mapping[str, Kind]:
    """Each declared kind by name, checked. Raises ConfigurationError naming ``parrot_kinds['name']['key']``."""
    found: dict[str, Kind] = {}
    for name, spec in kinds.items():
        where = f"parrot_kinds[{name!r}]"
        if not isinstance(name, str) or not name.strip():
            refuse("parrot_kinds", name, "has a kind without a name", "Name each kind with a text.")
        if (reason := bad_name(name)) is not None:
            refuse(where, name, f"has a name that {reason}", "Name each kind with a short text, e.g. 'agent'.")
        if not isinstance(spec, Mapping):
            refuse(where, spec, "must be a dictionary", "Write {'task': 'package.tasks.name', 'queue': 'name'}.")
        found[name] = _kind(where, name, spec, coordination, reap_after, reap_margin)
    return found


def _kind(
    where: str, name: str, spec: Mapping[str, Any], coordination: str, reap_after: float, reap_margin: float
) -> Kind:
    for key in spec:
        if key not in KEYS:
            hint = closest(str(key), KEYS)
            refuse(f"{where}[{key!r}]", spec[key], "is no key of a kind", f"{hint}Known are {', '.join(KEYS)}.")
    task = _text(where, spec, "task")
    if name == TASK_KIND and task is not None:
        refuse(
            f"{where}['task']", task, "the built-in kind 'task' runs each schedule's own target",
            "Remove the key, or give this kind another name.",
        )  # fmt: skip
    if name != TASK_KIND and task is None:
        refuse(where, dict(spec), "a kind needs a task that runs its fires", "Add 'task': 'package.tasks.name'.")
    kind = Kind(
        name=name,
        task=task,
        queue=_text(where, spec, "queue"),
        priority=_priority(where, spec),
        time_limit=_seconds(where, spec, "time_limit"),
        soft_time_limit=_seconds(where, spec, "soft_time_limit"),
        reap_after=_seconds(where, spec, "reap_after"),
        progress=_flag(where, spec, "progress"),
        max_in_flight=_in_flight(where, spec, coordination),
        exclusion_group=_group(where, spec, coordination),
        overlap=_overlap(where, spec, coordination),
        misfire_grace=_seconds(where, spec, "misfire_grace", zero=True),
        declared=name != TASK_KIND,
    )
    _fits(where, kind, reap_after, reap_margin)
    return kind


def _overlap(where: str, spec: Mapping[str, Any], coordination: str) -> str | None:
    value = spec.get("overlap")
    if value is None:
        return None
    if value not in OVERLAPS:
        hint = closest(str(value), OVERLAPS)
        refuse(f"{where}['overlap']", value, "is not known", f"{hint}Use one of {', '.join(OVERLAPS)}.")
    if value != "allow":
        needs_coordinator(f"{where}['overlap']", value, coordination)
    return str(value)


def _in_flight(where: str, spec: Mapping[str, Any], coordination: str) -> int | None:
    value = spec.get("max_in_flight")
    if value is None:
        return None
    found = capacity(f"{where}['max_in_flight']", value)
    needs_coordinator(f"{where}['max_in_flight']", value, coordination)
    return found


def _group(where: str, spec: Mapping[str, Any], coordination: str) -> str | None:
    value = spec.get("exclusion_group")
    if value is None:
        return None
    found = group_name(f"{where}['exclusion_group']", value)
    needs_coordinator(f"{where}['exclusion_group']", value, coordination)
    return found


def _fits(where: str, kind: Kind, reap_after: float, reap_margin: float) -> None:
    if kind.soft_time_limit is not None and kind.time_limit is not None and kind.soft_time_limit > kind.time_limit:
        refuse(
            f"{where}['soft_time_limit']", kind.soft_time_limit, f"is longer than time_limit ({kind.time_limit:g})",
            "Make it shorter than time_limit.",
        )  # fmt: skip
    if not kind.declared or kind.progress:
        return
    threshold = kind.reap_after if kind.reap_after is not None else reap_after
    if threshold <= reap_margin:
        refuse(
            f"{where}['reap_after']", threshold, f"leaves no running time before parrot_reap_margin ({reap_margin:g})",
            "Make it longer, or set 'progress': True and report progress.",
        )  # fmt: skip
    longest = threshold - reap_margin
    for key in ("time_limit", "soft_time_limit"):
        value = getattr(kind, key)
        if value is not None and value > longest:
            refuse(
                f"{where}[{key!r}]", value, f"can never fit: a run of this kind is ended as silent after {threshold:g} "
                f"s, and parrot_reap_margin ({reap_margin:g}) before that by its time limit",
                f"Set it to at most {longest:g}, raise reap_after, or set 'progress': True and report progress.",
            )  # fmt: skip


def _text(where: str, spec: Mapping[str, Any], key: str) -> str | None:
    value = spec.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        refuse(f"{where}[{key!r}]", value, "must be a text", f"Name a {key}, or remove the key.")
    return value


def _seconds(where: str, spec: Mapping[str, Any], key: str, *, zero: bool = False) -> float | None:
    value = spec.get(key)
    return None if value is None else number(f"{where}[{key!r}]", value, zero=zero)


def _priority(where: str, spec: Mapping[str, Any]) -> int | None:
    value = spec.get("priority")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 255:
        refuse(f"{where}['priority']", value, "must be a whole number, 0 to 255", "Set one, or remove the key.")
    return value


def _flag(where: str, spec: Mapping[str, Any], key: str) -> bool:
    value = spec.get(key, False)
    if not isinstance(value, bool):
        refuse(f"{where}[{key!r}]", value, "is neither true nor false", "Set True or False.")
    return value
