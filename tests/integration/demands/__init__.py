"""Run-now and backfill with real beats and workers."""
