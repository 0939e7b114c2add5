"""Where Redis is: one server, a master behind Sentinel, a cluster; and options that no client would take."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import pytest
from celery import Celery

from celery_parrot import ConfigurationError
from celery_parrot.model.fire import Namespace
from celery_parrot.runtime.conf_redis import RedisAddress
from celery_parrot.runtime.config import Settings, describe, load


def read(environ: Mapping[str, str] | None = None, **settings: Any) -> Settings:
    app = Celery("test", set_as_current=False)
    app.conf.update(settings)
    return load(app, environ or {})


def address(**settings: Any) -> RedisAddress:
    found = read(**settings).redis
    assert found is not None
    return found


MASTER = {"master_name": "mymaster"}
TWO = "sentinel://:s3cret@a:26380;sentinel://b"


def test_sentinel() -> None:
    found = address(
        parrot_redis_url=TWO + "/3",
        parrot_redis_options={
            **MASTER, "socket_timeout": "1.5", "min_other_sentinels": 1, "sentinel_kwargs": {"password": "hidden"},
        },
    )  # fmt: skip
    assert found.nodes == (("a", 26380), ("b", 26379))
    assert found.sentinel is not None
    assert (found.sentinel.master, found.sentinel.min_other_sentinels) == ("mymaster", 1)
    assert found.sentinel.options == {"password": "hidden"}
    assert found.options == {"password": "s3cret", "db": 3, "socket_timeout": 1.5}
    assert not found.cluster


@pytest.mark.parametrize("url", ["sentinel://u:p%3B@[::1]:1;h:2", "sentinel://h:1;sentinel://u:p%3B@h:2 "])
def test_credentials_may_be_in_any_part_and_the_scheme_in_the_first(url: str) -> None:
    found = address(parrot_redis_url=url, parrot_redis_options=MASTER)
    assert [port for _, port in found.nodes] == [1, 2]
    assert found.options == {"username": "u", "password": "p;"}


def test_our_database_number_goes_before_the_urls() -> None:
    found = address(parrot_redis_url="sentinel://h/1", parrot_redis_options=MASTER, parrot_redis_db=4)
    assert found.options["db"] == 4


def test_the_broker_behind_sentinel_brings_its_options_along_and_ours_win() -> None:
    transport = {"master_name": "theirs", "sentinel_kwargs": {"password": "p"}, "visibility_timeout": 9}
    broker = {"broker_url": TWO.split(";"), "broker_transport_options": transport}
    found = address(**broker)
    assert found.sentinel is not None
    assert (found.sentinel.master, found.sentinel.options) == ("theirs", {"password": "p"})
    assert found.nodes == (("a", 26380), ("b", 26379))
    assert found.options == {"password": "s3cret"}
    ours = address(**broker, broker_use_ssl={"ssl_ca_certs": "/ca"}, parrot_redis_options=MASTER)
    assert ours.sentinel is not None
    assert ours.sentinel.master == "mymaster"
    assert ours.options == {"password": "s3cret", "ssl": True, "ssl_ca_certs": "/ca"}


@pytest.mark.parametrize(("scheme", "tls"), [("redis+cluster", {}), ("rediss+cluster", {"ssl": True})])
def test_a_cluster_has_the_name_in_a_hash_tag(scheme: str, tls: dict[str, Any]) -> None:
    settings = read(parrot_redis_url=f"{scheme}://:s3cret@a:7000;b:7001", parrot_name="shop")
    assert settings.redis is not None
    assert settings.redis.nodes == (("a", 7000), ("b", 7001))
    assert settings.redis.options == {"password": "s3cret", **tls}
    assert settings.redis.cluster
    assert settings.namespace == Namespace("shop", hash_tag=True)
    assert read(parrot_redis_url="redis://h", parrot_name="shop").namespace == Namespace("shop")


def test_database_0_is_what_a_cluster_has() -> None:
    assert "db" not in address(parrot_redis_url="redis+cluster://a/0", parrot_redis_db=0).options


def test_no_text_shows_a_password() -> None:
    for settings in (
        read(parrot_redis_url=TWO, parrot_redis_options={**MASTER, "sentinel_kwargs": {"password": "s3cret"}}),
        read(parrot_redis_url="rediss+cluster://u:s3cret@a:1;b:2", parrot_redis_options={"ssl_password": "s3cret"}),
        read(parrot_redis_url="redis://h", parrot_redis_options={"password": "s3cret"}),
    ):
        for text in (repr(settings), str(settings.redis), str(describe(settings))):
            assert "s3cret" not in text
    assert "(mymaster)" in str(describe(read(parrot_redis_url=TWO, parrot_redis_options=MASTER)))


@pytest.mark.parametrize(
    "options",
    [
        {"socket_timeout": 5, "health_check_interval": 0, "max_connections": 9, "protocol": 3},
        {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_ca_certs": "/ca", "ssl_check_hostname": False},
        {"ssl_cert_reqs": "required", "credential_provider": object(), "socket_keepalive": False},
    ],
)
def test_what_a_client_takes_is_handed_on(options: dict[str, Any]) -> None:
    assert address(parrot_redis_url="rediss://h", parrot_redis_options=options).options == options


ONE, CLUSTER, BEHIND = "redis://h", "redis+cluster://h", "sentinel://h"


@pytest.mark.parametrize(
    ("url", "options", "key", "reason"),
    [
        (ONE, {"nope": 1}, "['nope']", "no option"),
        (ONE, {"socket_timeot": 1}, "['socket_timeot']", "Did you mean 'socket_timeout'"),
        (ONE, {7: 1}, "[7]", "no option"),
        (ONE, {"socket_timeout": "abc"}, "['socket_timeout']", "number"),
        (ONE, {"socket_timeout": None}, "['socket_timeout']", "number"),
        (ONE, {"socket_connect_timeout": 0}, "['socket_connect_timeout']", "above 0"),
        (ONE, {"socket_keepalive": "perhaps"}, "['socket_keepalive']", "True"),
        (ONE, {"socket_keepalive_options": 1}, "['socket_keepalive_options']", "dictionary"),
        (ONE, {"max_connections": 0}, "['max_connections']", "at least 1"),
        (ONE, {"max_connections": 1.5}, "['max_connections']", "whole"),
        (ONE, {"protocol": 4}, "['protocol']", "protocol"),
        (ONE, {"password": 5}, "['password']", "text"),
        (ONE, {"db": 3}, "['db']", "parrot_redis_db"),
        (ONE, {"decode_responses": True}, "['decode_responses']", "no option"),
        (ONE, {"retry": 3}, "['retry']", "no option"),
        (ONE, {"ssl_ca_certs": "/ca"}, "['ssl_ca_certs']", "rediss://"),
        (ONE, MASTER, "['master_name']", "sentinel://"),
        ("rediss://h", {"ssl_cert_reqs": "maybe"}, "['ssl_cert_reqs']", "not known"),
        ("unix:///s", {"socket_keepalive": True}, "['socket_keepalive']", "no option"),
        (CLUSTER, {"health_check_interval": 5}, "['health_check_interval']", "no option"),
        (CLUSTER, {"ssl_ca_certs": "/ca"}, "['ssl_ca_certs']", "needs TLS"),
        (BEHIND, {**MASTER, "ssl_ca_certs": "/ca"}, "['ssl_ca_certs']", "'ssl': True"),
        (BEHIND, {"master_name": 7}, "['master_name']", "text"),
        (BEHIND, {**MASTER, "sentinel_kwargs": 5}, "['sentinel_kwargs']", "dictionary"),
        (BEHIND, {**MASTER, "sentinel_kwargs": {"nope": 1}}, "['sentinel_kwargs']['nope']", "no option"),
        (BEHIND, {**MASTER, "sentinel_kwargs": {"ssl_ca_certs": "/ca"}}, "['sentinel_kwargs']['ssl_ca_certs']", "True"),
    ],
)
def test_an_option_that_cannot_be_is_named(url: str, options: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(parrot_redis_url=url, parrot_redis_options=options)
    assert caught.value.key == f"parrot_redis_options{key}"
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        ({"parrot_redis_url": TWO}, "parrot_redis_url", "'master_name' in parrot_redis_options"),
        ({"broker_url": TWO}, "broker_url", "'master_name' in broker_transport_options"),
        ({"parrot_redis_url": "sentinel://:s3cret@a:1;redis://b", "parrot_redis_options": MASTER}, "parrot_redis_url",
         "goes on with redis://"),
        ({"parrot_redis_url": "sentinel://a:x", "parrot_redis_options": MASTER}, "parrot_redis_url", "Port"),
        ({"parrot_redis_url": "redis://a:x"}, "parrot_redis_url", "Port"),
        ({"parrot_redis_url": "redis+cluster://"}, "parrot_redis_url", "host:port"),
        ({"parrot_redis_url": "redis+cluster://:s3cret@"}, "parrot_redis_url", "host:port"),
        ({"parrot_redis_url": "redis+cluster://a/name"}, "parrot_redis_url", "no number"),
        ({"parrot_redis_url": "redis+cluster://a/2"}, "parrot_redis_url", "one only"),
        ({"parrot_redis_url": "redis+cluster://a?socket_timeout=1"}, "parrot_redis_url", "parrot_redis_options"),
        ({"parrot_redis_url": "redis+cluster://a", "parrot_redis_db": 2}, "parrot_redis_db", "one database only"),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_is_one_error(settings: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(**settings)
    assert caught.value.key == key
    assert reason in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_the_database_number_of_the_environment_is_named_too() -> None:
    with pytest.raises(ConfigurationError, match=r"parrot_redis_db \[SCHEDULER_REDIS_DB\] = 2"):
        read({"SCHEDULER_REDIS_DB": "2"}, parrot_redis_url=CLUSTER)
