"""Addresses without their passwords, for people and logs."""

from __future__ import annotations

import re

# A password may hold a comma or a semicolon; so does a list of URLs, between two of them.
_CREDENTIALS = re.compile(r"(://[^:/@\s'\"]*):(?:(?![;,]\s*[a-z+]+://)[^\s'\"])*@")
_SECRET_QUERY = re.compile(r"(?i)([?&][a-z_]*(?:passw(?:or)?d|secret|token)[a-z_]*=)[^&\s'\"]*")


def mask(text: str) -> str:
    """``text`` without the passwords of the URLs in it."""
    return _SECRET_QUERY.sub(r"\1**", _CREDENTIALS.sub(r"\1:**@", text))
