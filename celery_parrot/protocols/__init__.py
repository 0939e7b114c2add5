"""The seams between rooms: protocols, and the frozen values they speak in.

One method is one atomic operation of the backend and takes a batch. "Someone else won" is a value; "I could not ask"
is :exc:`~celery_parrot.errors.Unreachable`.
"""

from celery_parrot.protocols.coordinator import Coordinator
from celery_parrot.protocols.editing import (
    Change,
    DefinitionStore,
    Inspecting,
    Page,
    State,
    Stored,
    Written,
)
from celery_parrot.protocols.ledger import (
    Advance,
    Carried,
    Ledger,
    Preparing,
    RowStore,
)
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
    SAME_AGE,
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
    "SAME_AGE",
    "SLOTS",
    "WORKER_LOST",
    "Advance",
    "Busy",
    "Carried",
    "Change",
    "CommitReply",
    "Coordinator",
    "DefinitionStore",
    "Delivery",
    "Drop",
    "Due",
    "EventSink",
    "FinishReply",
    "FinishVerdict",
    "Grant",
    "Hold",
    "Inspecting",
    "Lease",
    "Ledger",
    "Limit",
    "LimitReply",
    "LimitRequest",
    "Limits",
    "Mark",
    "Memory",
    "Message",
    "Outcome",
    "Page",
    "Preparing",
    "Reading",
    "Reaped",
    "Registration",
    "RowStore",
    "Running",
    "ScheduleStore",
    "SendResult",
    "SendStatus",
    "Sender",
    "StartReply",
    "StartVerdict",
    "State",
    "Stored",
    "SweepReply",
    "Timing",
    "Waiting",
    "WakeChannel",
    "Written",
]
