"""AGREE: commits, outbox, leases and limits. One package a backend; siblings never import each other."""
