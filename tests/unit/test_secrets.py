"""Passwords of addresses are not shown, whatever is in them."""

from __future__ import annotations

import pytest

from celery_parrot.coordination.redis import Link
from celery_parrot.model.secrets import mask


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://:s3cret@h:1/0", "redis://:**@h:1/0"),
        ("redis://:p@ss@h/0", "redis://:**@h/0"),
        ("redis://u:pa/ss@h/0", "redis://u:**@h/0"),
        ("redis://h/0?password=s3cret&db=1", "redis://h/0?password=**&db=1"),
        ("redis://h:1/0", "redis://h:1/0"),
    ],
)
def test_a_password_is_not_shown(address: str, shown: str) -> None:
    """Nor in what a connection says of itself, which goes into every error and log."""
    assert mask(f"cannot reach {address} now") == f"cannot reach {shown} now"


def test_a_connection_does_not_show_its_password() -> None:
    """Its text is part of every error it raises."""
    assert "s@cret" not in repr(Link("redis://:s@cret@127.0.0.1:1/0"))
