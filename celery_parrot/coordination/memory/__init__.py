"""The coordinator in this process's memory: what coordination ``none`` uses, and what the simulator runs on."""

from celery_parrot.coordination.memory.coordinator import MemoryCoordinator
from celery_parrot.coordination.memory.server import MemoryServer, ServerClock
from celery_parrot.coordination.memory.wake import MemoryWake

__all__ = ["MemoryCoordinator", "MemoryServer", "MemoryWake", "ServerClock"]
