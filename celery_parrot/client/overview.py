"""What ``parrot.schedules`` can do beyond one schedule: files of them, why one ran, who beats, who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from celery_parrot.client.applying import Comparing, Step
from celery_parrot.client.catalogue import Catalogue
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.groups import Group, InLine
from celery_parrot.client.health import BeatView, Health
from celery_parrot.client.rules import Rules
from celery_parrot.client.why_story import Story
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

    # --- one due time ---

    def why(
        self, name: str, at: datetime | str | None = None, fire: str | None = None, *, zone: tzinfo | None = None
    ) -> Story:
        """Why a schedule ran, or did not, in sentences: ``print(parrot.schedules.why("nightly", "yesterday 03:00"))``.

        :param at: the due time: an instant, ISO 8601, or ``03:00`` (today) or ``yesterday 03:00``; naive ones are in
            the schedule's zone. One without seconds stands for the whole minute. ``fire``: the id of a fire instead.
            Without either: the latest due time that is decided or on its way.
        :param zone: in which times are told; left out: the app's.
        :raises InvalidSchedule: for an ``at`` that is none of these. :raises ScheduleNotFound:
        :raises FireNotFound: if the history has no such fire.
        """
        # Loaded by those who ask: it is a good part of all that a client brings along.
        from celery_parrot.client.why import story_of
        from celery_parrot.client.why_facts import zone_named
        from celery_parrot.client.why_gather import Gatherer

        viewer = zone or zone_named(self._rules.timezone)
        gatherer = Gatherer(self._catalogue, self._coordination, self._rules.kinds, viewer)
        return story_of(gatherer.facts(name, at, fire))

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
        :raises GroupNotFound: :raises ParrotError: if several hold it and none is named.
        """
        reason = f"released by {actor}" if actor else "released by a person"
        return self._coordination.groups.release(name, fire_id, reason)

    # --- inside ---

    @property
    def _coordination(self) -> Coordination:
        if self._agreed is None:
            raise ParrotError("this client was made without a coordinator")
        return self._agreed
