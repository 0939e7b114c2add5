"""Schedules, fires, groups and beats inside Flower. Importing this package does nothing; :mod:`.plugin` does."""
