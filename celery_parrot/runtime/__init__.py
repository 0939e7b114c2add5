"""CELERY: the only room that imports it. Settings, wiring, scheduler, sender, worker."""
