"""The command line: ``celery -A app parrot …`` here, ``celery-parrot …`` in :mod:`.main`.

Celery imports this module on every one of its own calls, ``celery worker`` included. So it imports click and nothing
else; each verb is imported when it is asked for.
"""

from __future__ import annotations

from celery_parrot.cli.lazy import LazyGroup
from celery_parrot.cli.masking import mask_our_urls

mask_our_urls()

parrot = LazyGroup(
    "parrot",
    lazy={
        "list": "celery_parrot.cli.commands.listing:list_",
        "show": "celery_parrot.cli.commands.show:show_",
        "next": "celery_parrot.cli.commands.upcoming:next_",
        "preview": "celery_parrot.cli.commands.preview:preview",
        "create": "celery_parrot.cli.commands.create:create",
        "update": "celery_parrot.cli.commands.update:update",
        "pause": "celery_parrot.cli.commands.holding:pause",
        "resume": "celery_parrot.cli.commands.holding:resume",
        "delete": "celery_parrot.cli.commands.holding:delete",
        "run-now": "celery_parrot.cli.commands.run_now:run_now",
        "backfill": "celery_parrot.cli.commands.backfill:backfill",
        "fires": "celery_parrot.cli.commands.fires:fires",
        "why": "celery_parrot.cli.commands.why:why",
        "groups": "celery_parrot.cli.commands.groups:groups",
        "beats": "celery_parrot.cli.commands.beats:beats",
        "health": "celery_parrot.cli.commands.health:health",
        "doctor": "celery_parrot.cli.commands.doctor:doctor",
        "export": "celery_parrot.cli.commands.exporting:export",
        "apply": "celery_parrot.cli.commands.apply:apply",
        "import": "celery_parrot.cli.commands.import_:import_",
        "db": "celery_parrot.cli.commands.db:db",
        "flower": "celery_parrot.cli.commands.flower:flower",
    },
    help="Look at schedules, fires and beats, and change schedules; make the tables of the database.",
)
