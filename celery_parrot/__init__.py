"""A Celery beat scheduler in which every beat is active."""
