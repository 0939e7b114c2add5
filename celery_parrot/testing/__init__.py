"""For tests of schedules, stores and coordinators: a fake clock, a beat driven by hand, a sender that records.

Shipped with the library; nothing in here is used at run time.
"""

from celery_parrot.testing.beat import ManualBeat
from celery_parrot.testing.clock import FakeClock
from celery_parrot.testing.events import RecordingEvents
from celery_parrot.testing.sender import RecordingSender

__all__ = ["FakeClock", "ManualBeat", "RecordingEvents", "RecordingSender"]
