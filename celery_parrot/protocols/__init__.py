"""The seams between rooms: protocols, and the frozen values they speak in.

One method is one atomic operation of the backend and takes a batch. "Someone else won" is a value; "I could not ask"
is :exc:`~celery_parrot.errors.Unreachable`.
"""

from celery_parrot.protocols.coordinator import Coordinator
from celery_parrot.protocols.limits import (
    Grant,
    LimitReply,
    LimitRequest,
    Limits,
)
from celery_parrot.protocols.line import (
    IN_FLIGHT_SKIP_OUTPUT_KEY,
    SLOTS,
    Busy,
    Limit,
    Waiting,
)
from celery_parrot.protocols.outbox import (
    CommitReply,
    Drop,
    Hold,
    Mark,
    Registration,
    SweepReply,
)
from celery_parrot.protocols.runs import (
    WORKER_LOST,
    Delivery,
    FinishReply,
    FinishVerdict,
    Lease,
    Memory,
    Outcome,
    Reaped,
    Running,
    StartReply,
    StartVerdict,
)
from celery_parrot.protocols.sending import (
    EventSink,
    Message,
    Sender,
    SendResult,
    SendStatus,
    WakeChannel,
)
from celery_parrot.protocols.stores import Due, ScheduleStore
from celery_parrot.protocols.timing import Reading, Timing

__all__ = [
    "IN_FLIGHT_SKIP_OUTPUT_KEY",
    "SLOTS",
    "WORKER_LOST",
    "Busy",
    "CommitReply",
    "Coordinator",
    "Delivery",
    "Drop",
    "Due",
    "EventSink",
    "FinishReply",
    "FinishVerdict",
    "Grant",
    "Hold",
    "Lease",
    "Limit",
    "LimitReply",
    "LimitRequest",
    "Limits",
    "Mark",
    "Memory",
    "Message",
    "Outcome",
    "Reading",
    "Reaped",
    "Registration",
    "Running",
    "ScheduleStore",
    "SendResult",
    "SendStatus",
    "Sender",
    "StartReply",
    "StartVerdict",
    "SweepReply",
    "Timing",
    "Waiting",
    "WakeChannel",
]
