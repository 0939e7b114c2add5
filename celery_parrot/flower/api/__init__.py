"""The JSON API under ``/parrot/api``."""
