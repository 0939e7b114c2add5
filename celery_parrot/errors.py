"""Every exception the library raises, under one base: :class:`ParrotError`.

A lost race is never an exception (it is a value); "I could not ask" always is.
"""

from __future__ import annotations

from datetime import datetime

_SHOWN = 200


def _shown(value: object) -> str:
    """A value as an error shows it: whatever it is, a short line."""
    try:
        text = repr(value)
    except Exception:  # of a number with thousands of digits, of lists in lists in lists
        return f"<{type(value).__name__}>"
    return shortened(text, _SHOWN)


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text, and a mark where there were more."""
    return text if len(text) <= most else f"{text[:most]} … [cut]"


def printable(text: str) -> str:
    """A text that stays on its line: what would steer a terminal, or begin another line of a log, as its escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class ParrotError(Exception):
    """Anything this library raises on purpose."""


class ConfigurationError(ParrotError, ValueError):
    """A setting that cannot work. Raised at start-up, once, before anything is sent.

    :ivar key: the setting's name, e.g. ``parrot_fire_lock_ttl``.
    :ivar value: what it was set to.
    :ivar fix: what to do about it, as an imperative sentence.
    """

    def __init__(self, key: str, value: object, reason: str, fix: str) -> None:
        self.key, self.value, self.reason, self.fix = key, value, reason, fix
        super().__init__(f"{key} = {_shown(value)}: {reason}. {fix}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.key, self.value, self.reason, self.fix)


class InvalidSchedule(ParrotError, ValueError):
    """A schedule that cannot be built.

    :ivar field: the name of the field at fault, e.g. ``expr`` or ``day_of_week``.
    :ivar value: what that field holds; None, which is not shown, for nothing.
    :ivar reason: what is wrong with it and what would be right.
    """

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field, self.value, self.reason = field, value, reason
        holds = "" if value is None else f" = {_shown(value)}"
        super().__init__(f"{printable(shortened(field, _SHOWN))}{holds}: {reason}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.field, self.value, self.reason)


class ScheduleNotFound(ParrotError, LookupError):
    """No store has a schedule of this name or id.

    :ivar name: what was asked for. :ivar closest: the names most like it, closest first.
    """

    def __init__(self, name: str, closest: tuple[str, ...] = ()) -> None:
        self.name, self.closest = name, closest
        hint = f"; did you mean {' or '.join(repr(one) for one in closest)}?" if closest else ""
        super().__init__(f"there is no schedule {name!r}{hint}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.name, self.closest)


class FireNotFound(ParrotError, LookupError):
    """The history of a schedule has no such fire.

    :ivar name: the schedule. :ivar fire_id: what was asked for.
    """

    def __init__(self, name: str, fire_id: str) -> None:
        self.name, self.fire_id = name, fire_id
        super().__init__(f"the history of {name!r} has no fire {fire_id!r}; fires shows the ids that it has")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.name, self.fire_id)


class GroupNotFound(ParrotError, LookupError):
    """Nobody holds or waits for a limit of this name.

    :ivar name: what was asked for. :ivar closest: the names most like it of those that somebody holds or waits for.
    """

    def __init__(self, name: str, closest: tuple[str, ...] = ()) -> None:
        self.name, self.closest = name, closest
        hint = f"; did you mean {' or '.join(map(repr, closest))}?" if closest else ""
        super().__init__(f"nobody holds or waits for {name!r}{hint}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.name, self.closest)


class ScheduleExists(ParrotError):
    """The name is taken: names are unique across all stores.

    :ivar store: which store has it.
    """

    def __init__(self, name: str, store: str) -> None:
        self.name, self.store = name, store
        super().__init__(f"there is a schedule {name!r} already, in the {store} store")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.name, self.store)


class Conflict(ParrotError):
    """Somebody else changed the schedule since it was read; nothing was written.

    :ivar version: the version that was given. :ivar current: the one it has now, None if that is not known.
    """

    def __init__(self, name: str, version: int, current: int | None = None) -> None:
        self.name, self.version, self.current = name, version, current
        now = "" if current is None else f", it is {current} now"
        super().__init__(f"{name!r} is no longer at version {version}{now}; read it again and repeat the change")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.name, self.version, self.current)


class AlreadyRunning(ParrotError):
    """A run-now that was asked for before is still on its way; nothing was done.

    :ivar name: the schedule. :ivar held_by: the id of that fire. :ivar since: when it was asked for, UTC, if known.
    """

    def __init__(self, name: str, held_by: str, since: datetime | None = None) -> None:
        self.name, self.held_by, self.since = name, held_by, since
        asked = "" if since is None else f", asked for at {since:%Y-%m-%d %H:%M:%S} UTC"
        super().__init__(f"{name!r} is running already: fire {held_by}{asked}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.name, self.held_by, self.since)


class Unreachable(ParrotError):
    """A backend could not be asked, or its answer was lost: the call may or may not have been carried out."""


class MemoryLost(ParrotError):
    """The coordinator no longer knows the epoch this process knew: it forgot, or is another server.

    :ivar epoch: the epoch it answers with now, empty if it has none.
    """

    def __init__(self, epoch: str = "") -> None:
        self.epoch = epoch
        super().__init__(f"the coordinator's memory was lost (its epoch is now {epoch or 'unset'})")


class TargetMissing(ParrotError):
    """Raised by a task to say that what it was asked to run does not exist; recorded as ``target_missing``."""


class StoreUnreachable(Unreachable):
    """One store could not be asked; the coordinator and the other stores may well be.

    :ivar store: its name. :ivar reason: what it said.
    """

    def __init__(self, store: str, reason: str) -> None:
        self.store, self.reason = store, reason
        super().__init__(f"store {store}: {reason}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.store, self.reason)
