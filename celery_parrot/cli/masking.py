"""What is shown on a screen, where others look on and logs are kept, without its passwords.

Celery's report, and ``inspect conf``, hide settings by their names and do not know which of ours hold passwords.
"""

from __future__ import annotations

import re
import sys


def mask_our_urls() -> None:
    """Have Celery hide ``parrot_*_url`` and ``parrot_*_options`` too. Imports nothing: whoever can show settings has
    that module already."""
    utils = sys.modules.get("celery.app.utils")
    hidden = getattr(utils, "HIDDEN_SETTINGS", None)
    if isinstance(hidden, re.Pattern) and "PARROT_" not in hidden.pattern:
        ours = re.compile(rf"{hidden.pattern}|PARROT_\w*(URL|OPTIONS)", hidden.flags)
        setattr(utils, "HIDDEN_SETTINGS", ours)  # noqa: B010
