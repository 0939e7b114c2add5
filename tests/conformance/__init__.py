"""One suite, run against every implementation of a protocol."""
