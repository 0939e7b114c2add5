"""What is wrong with a database's settings is one error that names the setting, and no secret."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from sqlalchemy import exc

from celery_parrot.database import engine
from celery_parrot.database.engine import make_engine
from celery_parrot.errors import ConfigurationError


@pytest.mark.parametrize("url", ["postgresql:u:s3cret@h", "postgresql://u:s3cret@h:port/db"])
def test_a_url_that_cannot_be_read(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_engine(url)
    assert caught.value.key == "parrot_database_url"
    assert "s3cret" not in str(caught.value)


def test_a_url_is_not_quoted_back() -> None:
    """As some releases of SQLAlchemy do."""

    def refuse(url: Any) -> Any:
        raise exc.ArgumentError(f"Could not parse SQLAlchemy URL from string '{url}'")

    with mock.patch.object(engine, "make_url", refuse), pytest.raises(ConfigurationError) as caught:
        make_engine("postgresql:u:s3cret@h")
    assert "s3cret" not in str(caught.value)


def test_an_option_that_nobody_knows() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_engine("sqlite://", {"pool_sise": 3, "connect_args": {"password": "s3cret"}})
    assert caught.value.key == "parrot_database_options"
    assert "'pool_sise'" in str(caught.value)
    assert "s3cret" not in str(caught.value)
