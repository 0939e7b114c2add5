"""The pages under ``/parrot``."""
