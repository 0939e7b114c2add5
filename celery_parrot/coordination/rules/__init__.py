"""What a coordinator decides, written once: the rules that every coordinator of ours but the Redis one runs.

The Redis coordinator has the same rules as scripts; ``tests/conformance`` holds the two against each other.
"""
