"""Real ``celery beat`` and ``celery worker`` processes: what a user starts, sees and stops."""
