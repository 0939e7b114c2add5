"""The version, read by the build and by ``celery report``."""

__version__ = "0.1.0"
