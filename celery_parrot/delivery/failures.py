"""Why something was not delivered, in words that may be shown: no passwords, no tokens, not long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from celery_parrot.errors import ParrotError, shortened
from celery_parrot.model.secrets import mask

MOST: Final = 500
"""Characters of an error that are kept."""

_SHORTEST_SECRET: Final = 4


class NotDelivered(ParrotError):
    """A callback could not be delivered.

    :ivar final: trying again would not help (the address is refused, the server said it is gone).
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        self.reason, self.final = reason, final
        super().__init__(reason)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.reason,)


def told(exc: Exception, secrets: Iterable[str] = ()) -> str:
    """``exc`` in one line, without ``secrets`` and without the credentials of any URL in it."""
    try:
        text = str(exc)
    except Exception:
        text = "(its message cannot be shown)"
    if not isinstance(exc, NotDelivered):
        text = f"{type(exc).__name__}: {text}" if text else type(exc).__name__
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "**")
    # Cut before and after: a pattern should not have to run over megabytes, and masking may lengthen.
    masked = mask(" ".join(text[: 8 * MOST].replace("\0", " ").split()))
    return shortened(masked, MOST).encode("utf-8", "replace").decode()
