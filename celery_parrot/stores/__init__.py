"""REMEMBER: where definitions live. What happened to them is the coordinator's."""
