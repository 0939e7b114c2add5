"""``celery-parrot demo``: two beats, a worker and Flower on this machine, and one beat killed half-way.

:mod:`.app` is the Celery app that the children run; :mod:`.run` is the play, the rest its props.
"""
