"""A coordinator in a database, against real servers."""
