"""ACT: routing, the tick, the life of a fire. Knows protocols only: no backend, no Celery."""
