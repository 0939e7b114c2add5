"""The coordinator in Redis against servers that die, freeze, forget and forbid."""
