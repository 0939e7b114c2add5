"""Every operation of the API."""

from __future__ import annotations

from typing import Final

from celery_parrot.flower.api import backfills, bodies, files, overview, schedules
from celery_parrot.flower.api.operations import Answer, Operation
from celery_parrot.flower.api.shapes import (
    COUNT,
    INSTANT,
    OBJECT,
    STRETCH,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    WHOLE,
    Json,
    listed,
    record,
    ref,
)

_SCHEDULE: Final = Answer("The schedule.", ref("Schedule"), ("ETag",))
_OCCURRENCES: Final[Json] = {"type": "array", "items": ref("Occurrence")}
_COUNTS: Final[Json] = {"type": "object", "additionalProperties": COUNT}
_TIMELINE: Final = record({
    "from": INSTANT, "as_of": INSTANT, "bucket_seconds": WHOLE,
    "kinds": {"type": "object", "additionalProperties": {"type": "array", "items": COUNT}},
    "peaks": {"type": "array", "items": record({"at": INSTANT, "count": COUNT, "kinds": _COUNTS})},
    "counted": COUNT, "complete": TRUTH, "left_out": _COUNTS, "capped": COUNT, "failed": TEXT,
})  # fmt: skip
_KINDS: Final = record({
    "kinds": TEXTS, "stores": TEXTS, "states": TEXTS, "statuses": TEXTS, "schedule_types": TEXTS, "timezone": TEXT,
    "may_write": TRUTH, "why_not": TEXT_OR_NULL, "actor": TEXT,
})  # fmt: skip
_APPLIED: Final = record({
    "steps": {"type": "array", "items": ref("Step")}, "counts": _COUNTS, "dry_run": TRUTH,
})  # fmt: skip
_EXPORTED: Final = record({
    "schedules": {"type": "array", "items": OBJECT},
    "left_out": {
        "type": "array", "items": record({"name": TEXT, "store": TEXT, "reason": TEXT_OR_NULL}),
        "description": "Those that cannot be read.",
    },
    "after": TEXT, "next": TEXT,
})  # fmt: skip

_OF_SCHEDULES: Final = (
    Operation(
        method="GET", path="/schedules", id="find", tag="schedules", call=schedules.find,
        summary="Schedules by name",
        parameters=(bodies.KIND, bodies.STATE, bodies.STORE, bodies.SEARCH, bodies.AFTER, bodies.LIMIT),
        answers={200: Answer("A page of them.", listed(ref("Schedule")))},
    ),
    Operation(
        method="POST", path="/schedules", id="create", tag="schedules", call=schedules.create,
        summary="Save a new schedule", body=bodies.NEW_SCHEDULE, body_required=True, refusals=(409,),
        text="Its first due time is the first after now.",
        answers={201: Answer("The schedule.", ref("Schedule"), ("ETag", "Location"))},
    ),
    Operation(
        method="GET", path="/schedules/{name}", id="get", tag="schedules", call=schedules.get,
        summary="One schedule", parameters=(bodies.NAME,), refusals=(404,), answers={200: _SCHEDULE},
    ),
    Operation(
        method="PATCH", path="/schedules/{name}", id="update", tag="schedules", call=schedules.update,
        summary="Change fields of a schedule", parameters=(bodies.NAME,), body=bodies.CHANGES, body_required=True,
        text="Those that are given, and no others. Parts of callbacks that are shown as … cannot be sent back.",
        versioned=True, refusals=(404, 409), answers={200: _SCHEDULE},
    ),
    Operation(
        method="DELETE", path="/schedules/{name}", id="delete", tag="schedules", call=schedules.delete,
        summary="Delete a schedule", text="What it sent goes on; its history is kept until it is too old.",
        parameters=(bodies.NAME,), versioned=True, refusals=(404, 409), answers={204: Answer("It is deleted.")},
    ),
    Operation(
        method="POST", path="/schedules/{name}/pause", id="pause", tag="schedules", call=schedules.pause,
        summary="Stop a schedule until it is resumed", parameters=(bodies.NAME,), body=bodies.PAUSE,
        versioned=True, refusals=(404, 409), answers={200: _SCHEDULE},
    ),
    Operation(
        method="POST", path="/schedules/{name}/resume", id="resume", tag="schedules", call=schedules.resume,
        summary="Let a schedule run again, from now on", parameters=(bodies.NAME,), body=bodies.RESUME,
        versioned=True, refusals=(404, 409), answers={200: _SCHEDULE},
    ),
    Operation(
        method="POST", path="/schedules/{name}/run-now", id="run_now", tag="schedules", call=schedules.run_now,
        summary="Have a schedule run once, now", parameters=(bodies.NAME,), body=bodies.RUN_NOW,
        text="Refused (409, already_running) while one that was asked for before is on its way.",
        versioned=True, refusals=(404, 409), answers={202: Answer("It is on its way.", ref("Asked"))},
    ),
    Operation(
        method="GET", path="/schedules/{name}/next", id="next", tag="schedules", call=schedules.upcoming,
        summary="Its coming due times, with what clock changes do to them",
        parameters=(bodies.NAME, bodies.COUNT), refusals=(404,), answers={200: Answer("They.", _OCCURRENCES)},
    ),
    Operation(
        method="GET", path="/schedules/{name}/fires", id="fires", tag="schedules", call=schedules.fires,
        summary="What became of its due times, newest first",
        parameters=(bodies.NAME, bodies.LIMIT, bodies.BEFORE), refusals=(404,),
        answers={200: Answer("A page of them; before is where the next begins, empty: this was the last.", record({
            "items": {"type": "array", "items": ref("Fire")}, "before": TEXT,
        }))},
    ),
    Operation(
        method="GET", path="/schedules/{name}/why", id="why", tag="schedules", call=schedules.why,
        summary="Why it ran at a due time, or did not", parameters=(bodies.NAME, bodies.AT, bodies.FIRE),
        text="Without at or fire it is about the latest due time that is decided or on its way.",
        refusals=(404, 409), answers={200: Answer("The story.", ref("Story"))},
    ),
    Operation(
        method="POST", path="/preview", id="preview", tag="schedules", call=schedules.preview_,
        summary="When a schedule that nobody has saved yet would be due", body=bodies.PREVIEW, body_required=True,
        answers={200: Answer("In words, and its first due times.", record({"sentence": TEXT, "next": _OCCURRENCES}))},
    ),
)  # fmt: skip

_OF_MANY: Final = (
    Operation(
        method="POST", path="/schedules/{name}/backfill", id="backfill", tag="backfills", call=backfills.begin,
        summary="Fire the due times that did not fire", parameters=(bodies.NAME,), body=bodies.BACKFILL,
        text="A job of this Flower. It ends with it; asking again goes on where it stopped.",
        body_required=True, refusals=(404, 409),
        answers={
            200: Answer("Of a dry run: which would fire, the first 1000 of them.", record({
                **STRETCH, "due_times": {"type": "array", "items": INSTANT},
            })),
            202: Answer("It has begun.", ref("Backfill"), ("Location",)),
        },
    ),
    Operation(
        method="GET", path="/backfills", id="backfills", at_hand=True, tag="backfills", call=backfills.listed,
        summary="The backfills that this Flower was asked for, newest first",
        answers={200: Answer("They.", record({"items": {"type": "array", "items": ref("Backfill")}}))},
    ),
    Operation(
        method="GET", path="/backfills/{id}", id="get_backfill", at_hand=True, tag="backfills", call=backfills.get,
        summary="How far a backfill has come", parameters=(bodies.JOB,), refusals=(404,),
        answers={200: Answer("That far.", ref("Backfill"))},
    ),
    Operation(
        method="DELETE", path="/backfills/{id}", id="cancel_backfill", at_hand=True, tag="backfills",
        call=backfills.cancel, summary="Have a backfill ask for no more", parameters=(bodies.JOB,), refusals=(404,),
        text="What was asked for goes on.", answers={200: Answer("It stops.", ref("Backfill"))},
    ),
    Operation(
        method="GET", path="/export", id="export", tag="files", call=files.export,
        summary="Schedules as documents that apply takes", text="Callbacks without their secrets.",
        parameters=(bodies.STORE, bodies.KIND, bodies.AFTER, bodies.LIMIT),
        answers={200: Answer("A page of them.", _EXPORTED)},
    ),
    Operation(
        method="POST", path="/apply", id="apply", tag="files", call=files.apply, body=bodies.APPLY,
        summary="Make the schedules what documents say", body_required=True, refusals=(409,),
        text="A field that a document leaves out has its default. Without dry_run: false nothing is written.",
        answers={200: Answer("What differs, and what came of it.", _APPLIED)},
    ),
)  # fmt: skip

_OF_THE_WHOLE: Final = (
    Operation(
        method="GET", path="/fires", id="heard_fires", at_hand=True, tag="scheduler", call=overview.heard,
        summary="The latest fires of all schedules that this Flower has heard of, newest first",
        parameters=(bodies.KIND, bodies.STATUS, bodies.HEARD_TEXT, bodies.HEARD_AFTER, bodies.LIMIT),
        answers={200: Answer("A page of them.", listed(ref("HeardFire"), listening=TRUTH, events_on=TRUTH))},
    ),
    Operation(
        method="GET", path="/events", id="events", tag="scheduler", media="text/event-stream",
        summary="Each fire as it happens", text="One fire event a change, and a comment every 15 s.",
        answers={200: Answer("Server-sent events, without end.", TEXT)},
    ),
    Operation(
        method="GET", path="/timeline", id="timeline", at_hand=True, tag="scheduler", call=overview.timeline,
        summary="How many due times the next 24 hours have, by kind",
        text="Counted in the background; counted and complete tell how far that is.",
        answers={200: Answer("As far as it is counted.", _TIMELINE)},
    ),
    Operation(
        method="GET", path="/groups", id="groups", tag="scheduler", call=overview.groups,
        summary="Who holds what may not run together, and who waits for it",
        answers={200: Answer("What somebody holds or waits for.", record({
            "items": {"type": "array", "items": ref("Group")},
        }))},
    ),
    Operation(
        method="POST", path="/groups/{name}/release", id="release_group", tag="scheduler", call=overview.release,
        summary="End the fire that holds a group", parameters=(bodies.GROUP,), body=bodies.RELEASE,
        text="It is recorded as abandoned, and the next in line starts. A task that really runs is not stopped.",
        refusals=(404, 409), answers={200: Answer("What was ended.", ref("InLine"))},
    ),
    Operation(
        method="GET", path="/beats", id="beats", tag="scheduler", call=overview.beats, summary="Who beats",
        answers={200: Answer("Those of the last hour, and whether that is enough.", record({
            "items": {"type": "array", "items": ref("Beat")}, "health": ref("Health"),
            "max_clock_skew": {"type": "number", "description": "Seconds; parrot_max_clock_skew as Flower sees it."},
        }))},
    ),
    Operation(
        method="GET", path="/health", id="health", tag="scheduler", call=overview.health,
        summary="Whether this scheduler is beating",
        answers={200: Answer("It is.", ref("Health")), 503: Answer("It is not.", {
            "anyOf": [ref("Health"), ref("Error")],
        })},
    ),
    Operation(
        method="GET", path="/kinds", id="kinds", at_hand=True, tag="scheduler", call=overview.kinds,
        summary="What there is to choose from, and whether you may change anything",
        answers={200: Answer("It.", _KINDS)},
    ),
    Operation(
        method="GET", path="/schema", id="schema", at_hand=True, tag="files", call=overview.schema,
        summary="The JSON Schema of a schedule", answers={200: Answer("Draft 2020-12.", OBJECT)},
    ),
)  # fmt: skip

OPERATIONS: Final = (*_OF_SCHEDULES, *_OF_MANY, *_OF_THE_WHOLE)
"""All but the document itself."""
