"""The verbs of ``celery -A app parrot``, one module each."""
