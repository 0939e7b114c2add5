"""Seeded interleavings of the real dispatch code in one process: ``python -m tests.simulation --help``."""
