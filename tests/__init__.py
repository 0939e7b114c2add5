"""The tests. tests/README.md says how to run them and what they need."""
