"""A sender that keeps what it is given."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.protocols import Message, SendResult, SendStatus


class RecordingSender:
    """A :class:`~celery_parrot.protocols.Sender` whose broker is a list.

    :ivar sent: every message that "reached the broker", in order.
    :ivar down: while set, every publish fails with this text.
    """

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.down = ""
        self.closed = False

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        """Record all, or fail the first and try none of the others."""
        if self.down and messages:
            rest = [SendResult(SendStatus.NOT_TRIED)] * (len(messages) - 1)
            return [SendResult(SendStatus.FAILED, self.down), *rest]
        self.sent.extend(messages)
        return [SendResult(SendStatus.SENT)] * len(messages)

    def close(self) -> None:
        self.closed = True
