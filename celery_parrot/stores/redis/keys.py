"""The keys of this store, all under ``parrot:scheduler:{registered_name}:``, and the commands used on them.

``jobs``              hash: id -> versioned JSON definition
``names``             sorted set of one score: name, NUL, id; unique by name, read by name
``names:{kind}``      the same of one kind
``run_times:{kind}``  sorted set: id by next sending instant, in milliseconds
``kinds``             set: kinds that have or had a ``run_times``
``state:{id}``        hash, shared with the coordinator: run state and mark, also name, kind, version, note
``fires:{id}``        hash, shared with the coordinator: history
``wake``              pub/sub channel
"""

from __future__ import annotations

from typing import Final

#: Patterns, relative to the prefix, of the keys of this store that stay without a TTL, besides the coordinator's.
#: They are what somebody wrote down; they go when it is deleted.
PERMANENT_KEYS: Final = ("jobs", "names", "names:*", "kinds", "run_times:*")

#: What an ACL user needs besides the coordinator's commands.
COMMANDS: Final = frozenset({"srem", "zrangebylex"})
