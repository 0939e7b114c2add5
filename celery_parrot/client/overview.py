"""What ``parrot.schedules`` can do beyond one schedule: files of them, who beats, who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery_parrot.client.applying import Comparing, Step
from celery_parrot.client.catalogue import Catalogue
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.groups import Group, InLine
from celery_parrot.client.health import BeatView, Health
from celery_parrot.client.rules import Rules
from celery_parrot.clock import Clock
from celery_parrot.errors import ParrotError


class Overview:
    """Base of :class:`~celery_parrot.client.Schedules`, which sets these."""

    _catalogue: Catalogue
    _rules: Rules
    _clock: Clock
    _agreed: Coordination | None

    def compare(
        self, documents: Sequence[Any], *, prune: bool = False, store: str | None = None, kind: str | None = None
    ) -> list[Step]:
        """What would have to change for the schedules to be as in these documents; nothing is written.

        :param documents: the fields of a schedule each; what is absent has its default, also where it is something
            else now. With ``version``, another one now is refused.
        :param prune: also delete those that no document names; only of this ``store`` and ``kind``, if given. Of the
            editable stores: the code's are deleted in the code.
        """
        return Comparing(self._catalogue, self._rules, self._clock).steps(documents, prune, store, kind)

    # --- beats and limits ---

    def beats(self) -> tuple[BeatView, ...]:
        """The beats of the last hour, and whether each lives."""
        return tuple(self._coordination.beats()[0])

    def health(self) -> Health:
        """Whether this scheduler is beating: some beat lives, and none has been without a store for 30 s."""
        return self._coordination.health()

    def groups(self) -> tuple[Group, ...]:
        """Every limit that somebody holds or waits for, by name: exclusion groups, kinds, slots, schedules."""
        return self._coordination.groups.all()

    def group_holder(self, name: str, fire_id: str | None = None) -> InLine:
        """Whom :meth:`release_group` would end. Raises ParrotError as that does."""
        return self._coordination.groups.holder(name, fire_id)

    def release_group(self, name: str, fire_id: str | None = None, *, actor: str = "") -> InLine:
        """End the fire that holds a group, as ``abandoned``, not counted as a failure; whoever waits is next. A worker
        that still runs it finds its lease gone.

        :param name: of an exclusion group, or the whole name of any limit, such as ``kind:report``.
        :param fire_id: which of several. :param actor: who does this; kept as the reason.
        :raises ParrotError: if nobody holds it, or several do and none is named.
        """
        reason = f"released by {actor}" if actor else "released by a person"
        return self._coordination.groups.release(name, fire_id, reason)

    # --- inside ---

    @property
    def _coordination(self) -> Coordination:
        if self._agreed is None:
            raise ParrotError("this client was made without a coordinator")
        return self._agreed
