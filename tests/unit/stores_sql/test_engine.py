"""What is wrong with a database's settings is one error that names the setting, and no secret."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from sqlalchemy import create_engine, exc

from celery_parrot.coordination.sql import SqlCoordinator
from celery_parrot.database import engine
from celery_parrot.database.engine import Database, make_engine
from celery_parrot.errors import ConfigurationError
from celery_parrot.model.fire import Namespace
from celery_parrot.testing import FakeClock


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


@pytest.mark.parametrize(
    "options",
    [
        {"isolation_level": "AUTOCOMMIT"},
        {"isolation_level": "autocommit"},
        {"execution_options": {"isolation_level": "AUTOCOMMIT"}},
    ],
)
def test_without_transactions_nothing_is_decided_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_engine("sqlite://", options)
    assert (caught.value.key, caught.value.value) == ("parrot_database_options", {"isolation_level": mock.ANY})
    theirs = create_engine("sqlite://", **options)
    for use in (lambda: SqlCoordinator(theirs, Namespace("n")), lambda: Database(theirs, FakeClock())):
        with pytest.raises(ConfigurationError):
            use()
