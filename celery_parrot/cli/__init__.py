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
        "next": "celery_parrot.cli.commands.upcoming:next_",
        "preview": "celery_parrot.cli.commands.preview:preview",
        "fires": "celery_parrot.cli.commands.fires:fires",
        "beats": "celery_parrot.cli.commands.beats:beats",
        "health": "celery_parrot.cli.commands.health:health",
        "db": "celery_parrot.cli.commands.db:db",
    },
    help="Look at schedules, fires and beats; make the tables of the database.",
)
