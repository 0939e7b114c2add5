"""Settings: what is read from where, and one clear error for each that cannot work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from celery import Celery

from celery_parrot import ConfigurationError
from celery_parrot.model.secrets import mask
from celery_parrot.runtime.conf_source import ENVIRONMENT, shown
from celery_parrot.runtime.config import KNOWN, Settings, check_graces, describe, load

REDIS = "redis://:s3cret@redis.example:6379/1"


def read(environ: Mapping[str, str] | None = None, **settings: Any) -> Settings:
    app = Celery("test", set_as_current=False)
    app.conf.update(settings)
    return load(app, environ or {})


# --- where settings come from ---


def test_defaults_are_those_of_the_design() -> None:
    """Every number the documentation gives."""
    settings = read()
    assert (settings.name, settings.coordination, settings.redis) == ("scheduler_manager", "none", None)
    assert (settings.on_time, settings.takeover_after, settings.lease_ttl, settings.reap_after) == (10, 10, 15, 900)
    assert (settings.reap_margin, settings.reap_interval, settings.sync_interval, settings.share_delay) == (
        5, 30, 1, 0.05,
    )  # fmt: skip
    assert (settings.fire_lock_ttl, settings.run_now_lock_ttl, settings.max_consecutive_failures) == (86400, 3600, 3)
    assert (settings.result_max_chars, settings.history_days, settings.history_limit) == (4096, 30, 1000)
    assert (settings.unreachable, settings.max_clock_skew, settings.kinds) == ("hold", 5, {})
    assert settings.warnings == ()


def test_timing_and_namespace_follow_the_settings() -> None:
    settings = read(parrot_name="billing", parrot_fire_lock_ttl=7200, parrot_lease_ttl=6, parrot_takeover_after=4)
    assert settings.namespace.prefix == "parrot:scheduler:billing:"
    timing = settings.timing
    assert (timing.claim_ttl, timing.lease, timing.takeover_after, timing.heartbeat) == (7200, 6, 4, 3)


@pytest.mark.parametrize(
    ("environ", "field", "value"),
    [
        ({"SCHEDULER_COORDINATION": "none"}, "coordination", "none"),
        ({"SCHEDULER_FIRE_LOCK_TTL": "7200"}, "fire_lock_ttl", 7200),
        ({"SCHEDULER_RUN_NOW_LOCK_TTL": "60"}, "run_now_lock_ttl", 60),
        ({"SCHEDULER_MAX_CONSECUTIVE_FAILURES": "5"}, "max_consecutive_failures", 5),
        ({"SCHEDULER_MAX_CONSECUTIVE_FAILURES": "0"}, "max_consecutive_failures", 0),
    ],
)
def test_the_environment_is_read_when_a_setting_is_absent(environ: dict[str, str], field: str, value: object) -> None:
    assert getattr(read(environ, broker_url=REDIS), field) == value


def test_a_setting_beats_the_environment_and_empty_text_is_absent() -> None:
    assert read({"SCHEDULER_FIRE_LOCK_TTL": "7200"}, parrot_fire_lock_ttl=9000).fire_lock_ttl == 9000
    assert read({"SCHEDULER_FIRE_LOCK_TTL": ""}).fire_lock_ttl == 86400


def test_the_database_number_of_the_environment_reaches_the_address() -> None:
    settings = read({"SCHEDULER_REDIS_DB": "4"}, broker_url=REDIS)
    assert settings.redis is not None
    assert settings.redis.url == "redis://:s3cret@redis.example:6379/4"


def test_every_environment_name_belongs_to_a_known_setting() -> None:
    assert ENVIRONMENT.keys() <= KNOWN


def test_a_namespace_prefixes_our_settings_like_celerys() -> None:
    """Django's way: ``config_from_object("django.conf:settings", namespace="CELERY")``."""

    class Config:
        CELERY_BROKER_URL = REDIS
        CELERY_PARROT_NAME = "shop"
        CELERY_PARROT_KINDS = {"report": {"task": "t.report"}}  # noqa: RUF012
        CELERY_PARROT_NAEM = "shop"
        PARROT_OF_ANOTHER_LIBRARY = 1

    app = Celery("test", set_as_current=False)
    app.config_from_object(Config, namespace="CELERY")
    settings = load(app, {})
    assert settings.name == "shop"
    assert settings.coordination == "redis"
    assert list(settings.kinds) == ["report"]
    assert any("parrot_naem" in sentence and "parrot_name" in sentence for sentence in settings.warnings)


def test_upper_case_names_are_read_too() -> None:
    class Config:
        PARROT_NAME = "shop"

    app = Celery("test", set_as_current=False)
    app.config_from_object(Config)
    assert load(app, {}).name == "shop"


# --- coordination ---


@pytest.mark.parametrize(
    ("settings", "coordination", "url"),
    [
        ({"broker_url": "redis://h/0"}, "redis", "redis://h/0"),
        ({"broker_url": "rediss://h/0"}, "redis", "rediss://h/0"),
        ({"broker_url": "valkey://h/0"}, "redis", "valkey://h/0"),
        ({"broker_url": "redis+socket:///run/redis.sock?virtual_host=2"}, "redis", "unix:///run/redis.sock?db=2"),
        ({"broker_url": "unix:///run/redis.sock", "parrot_redis_db": 3}, "redis", "unix:///run/redis.sock?db=3"),
        ({"broker_url": "rediss://h?ssl_cert_reqs=CERT_NONE"}, "redis", "rediss://h?ssl_cert_reqs=none"),
        ({"broker_url": "redis://h", "broker_use_ssl": True}, "redis", "rediss://h"),
        ({"broker_url": "sentinel://a:1", "parrot_coordination": "none"}, "none", None),
        ({"broker_url": ["redis://a/0", "redis://b/0"]}, "redis", "redis://a/0"),
        ({"broker_url": "amqp://h//"}, "none", None),
        ({}, "none", None),
        ({"broker_url": "amqp://h//", "parrot_redis_url": "redis://r/2"}, "redis", "redis://r/2"),
        ({"broker_url": "redis://h/0", "parrot_redis_url": "redis://r/2"}, "redis", "redis://r/2"),
        ({"broker_url": "redis://h/0", "parrot_coordination": "none"}, "none", None),
        ({"broker_write_url": "redis://w/0", "broker_url": "amqp://h//"}, "redis", "redis://w/0"),
    ],
)
def test_redis_is_the_default_where_one_is_known(settings: dict[str, Any], coordination: str, url: str | None) -> None:
    found = read(**settings)
    assert found.coordination == coordination
    assert (found.redis.url if found.redis else None) == url


def test_a_broker_over_tls_brings_its_options_along_and_ours_win() -> None:
    settings = read(
        broker_url="redis://h",
        broker_use_ssl={"ssl_ca_certs": "/ca", "ssl_keyfile": "/key"},
        parrot_redis_options={"ssl_keyfile": "/mine"},
    )
    assert settings.redis is not None
    assert dict(settings.redis.options) == {"ssl_ca_certs": "/ca", "ssl_keyfile": "/mine"}


# --- kinds ---


def test_a_kind_with_all_it_may_say() -> None:
    spec = {
        "task": "t.report", "queue": "reports", "reap_after": 120, "progress": False, "time_limit": 60,
        "soft_time_limit": 50, "priority": 3, "overlap": "allow", "misfire_grace": 30,
    }  # fmt: skip
    kind = read(parrot_kinds={"report": spec}).kinds["report"]
    assert (kind.task, kind.queue, kind.priority, kind.declared) == ("t.report", "reports", 3, True)
    assert (kind.time_limit, kind.soft_time_limit, kind.reap_after, kind.misfire_grace) == (60, 50, 120, 30)


def test_the_built_in_kind_may_be_given_a_queue_and_stays_undeclared() -> None:
    kind = read(parrot_kinds={"task": {"queue": "cron"}}).kinds["task"]
    assert (kind.queue, kind.task, kind.declared) == ("cron", None, False)


# --- errors ---

BAD: list[tuple[dict[str, Any], str, str, str]] = [
    # settings, key, in the reason, in the fix
    ({"parrot_coordination": "rediss"}, "parrot_coordination", "not known", "'redis'"),
    ({"parrot_coordination": "redis"}, "parrot_coordination", "no Redis URL", "parrot_redis_url"),
    ({"parrot_coordination": "db"}, "parrot_coordination", "parrot_database_url is not set", "postgresql"),
    ({"broker_url": "sentinel://a:1"}, "broker_url", "Sentinel", "parrot_redis_url"),
    ({"parrot_redis_url": "amqp://h"}, "parrot_redis_url", "does not begin", "redis://"),
    ({"parrot_redis_url": 7}, "parrot_redis_url", "does not begin", "redis://"),
    ({"parrot_redis_db": -2, "broker_url": REDIS}, "parrot_redis_db", "at least 0", "Set"),
    ({"parrot_redis_options": "x"}, "parrot_redis_options", "dictionary", "Set"),
    ({"parrot_name": "a b"}, "parrot_name", "spaces", "Choose"),
    ({"parrot_name": "a:fire"}, "parrot_name", "without", "Choose"),
    ({"parrot_name": "{a}"}, "parrot_name", "without", "Choose"),
    ({"parrot_name": ""}, "parrot_name", "text", "Choose"),
    ({"parrot_fire_lock_ttl": 60}, "parrot_fire_lock_ttl", "longest misfire_grace (300", "at least 300"),
    (
        {"parrot_fire_lock_ttl": 400, "parrot_kinds": {"r": {"task": "t", "misfire_grace": 500}}},
        "parrot_fire_lock_ttl", "500 s, parrot_kinds['r']", "at least 500",
    ),
    ({"parrot_fire_lock_ttl": 400, "parrot_takeover_after": 400}, "parrot_fire_lock_ttl", "takeover_after", "above"),
    ({"parrot_fire_lock_ttl": 400, "parrot_lease_ttl": 500}, "parrot_fire_lock_ttl", "parrot_lease_ttl", "above"),
    ({"parrot_lease_ttl": 0}, "parrot_lease_ttl", "above 0", "Set"),
    ({"parrot_lease_ttl": -1}, "parrot_lease_ttl", "above 0", "Set"),
    ({"parrot_takeover_after": "soon"}, "parrot_takeover_after", "number", "Set"),
    ({"parrot_takeover_after": float("inf")}, "parrot_takeover_after", "number", "Set"),
    ({"timezone": "Europe/Madird"}, "timezone", "no time zone", "IANA"),
    ({"parrot_fire_lock_ttl": 1e18}, "parrot_fire_lock_ttl", "at most 1,000,000,000", "smaller"),
    ({"parrot_on_time": 1e300}, "parrot_on_time", "at most 1,000,000,000", "smaller"),
    ({"parrot_max_concurrent": 10**400}, "parrot_max_concurrent", "must be a number", "Set a number"),
    ({"parrot_history_days": 1e8}, "parrot_history_days", "at most 36,500 days", "fewer"),
    ({"parrot_sync_interval": 3}, "parrot_sync_interval", "taken for dead", "below 3"),
    ({"parrot_sync_interval": True}, "parrot_sync_interval", "number", "Set"),
    ({"parrot_reap_margin": 900}, "parrot_reap_margin", "not shorter", "shorter"),
    ({"parrot_history_limit": 0}, "parrot_history_limit", "at least 1", "Set"),
    ({"parrot_max_consecutive_failures": 1.5}, "parrot_max_consecutive_failures", "whole", "Set"),
    ({"parrot_max_consecutive_failures": -1}, "parrot_max_consecutive_failures", "at least 0", "Set"),
    ({"parrot_result_max_chars": 3}, "parrot_result_max_chars", "at least 16", "Set"),
    ({"parrot_unreachable": "wait"}, "parrot_unreachable", "not known", "hold, run"),
    ({"parrot_kinds": ["report"]}, "parrot_kinds", "dictionary", "Set"),
    ({"parrot_kinds": {"r": "t.report"}}, "parrot_kinds['r']", "dictionary", "task"),
    ({"parrot_kinds": {"r": {"queue": "q"}}}, "parrot_kinds['r']", "needs a task", "Add 'task'"),
    ({"parrot_kinds": {"": {"task": "t"}}}, "parrot_kinds", "without a name", "Name"),
    ({"parrot_kinds": {"a\nb": {"task": "t"}}}, r"parrot_kinds['a\nb']", "control characters", "short text"),
    ({"parrot_kinds": {"a\ud800": {"task": "t"}}}, r"parrot_kinds['a\ud800']", "control characters", "short text"),
    ({"parrot_kinds": {"a" * 256: {"task": "t"}}}, f"parrot_kinds['{'a' * 256}']", "longer than 255", "short text"),
    ({"parrot_kinds": {"r": {"task": "t", "que": "q"}}}, "parrot_kinds['r']['que']", "no key", "'queue'"),
    ({"parrot_kinds": {"r": {"task": 5}}}, "parrot_kinds['r']['task']", "text", "Name"),
    ({"parrot_kinds": {"task": {"task": "t"}}}, "parrot_kinds['task']['task']", "built-in", "Remove"),
    ({"parrot_kinds": {"r": {"task": "t", "priority": 900}}}, "parrot_kinds['r']['priority']", "0 to 255", "Set"),
    ({"parrot_kinds": {"r": {"task": "t", "progress": 1}}}, "parrot_kinds['r']['progress']", "true", "Set"),
    ({"parrot_kinds": {"r": {"task": "t", "time_limit": 0}}}, "parrot_kinds['r']['time_limit']", "above 0", "Set"),
    (
        {"parrot_kinds": {"r": {"task": "t", "time_limit": 5, "soft_time_limit": 6}}},
        "parrot_kinds['r']['soft_time_limit']", "longer", "shorter",
    ),
    ({"parrot_kinds": {"r": {"task": "t", "reap_after": 4}}}, "parrot_kinds['r']['reap_after']", "leaves no", "longer"),
    ({"parrot_kinds": {"r": {"task": "t", "overlap": "skipp"}}}, "parrot_kinds['r']['overlap']", "not known", "'skip'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "key", "reason", "fix"), BAD, ids=[f"{i}-{case[1]}" for i, case in enumerate(BAD)]
)
def test_a_bad_setting_is_one_error_with_key_value_and_fix(
    settings: dict[str, Any], key: str, reason: str, fix: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(**settings)
    error = caught.value
    assert error.key == key
    assert reason in error.reason
    assert fix in error.fix
    assert str(error).startswith(f"{key} = ")
    assert "\n" not in str(error)


def test_an_error_from_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigurationError, match=r"parrot_fire_lock_ttl \[SCHEDULER_FIRE_LOCK_TTL\] = 'x'"):
        read({"SCHEDULER_FIRE_LOCK_TTL": "x"})


LIMITS: list[dict[str, Any]] = [
    {"parrot_kinds": {"r": {"task": "t", "max_in_flight": 1}}},
    {"parrot_kinds": {"r": {"task": "t", "exclusion_group": "gpu"}}},
    {"parrot_kinds": {"r": {"task": "t", "overlap": "skip"}}},
    {"parrot_max_concurrent": 4},
    {"parrot_exclusion_groups": {"gpu": 2}},
]


@pytest.mark.parametrize("settings", LIMITS, ids=lambda settings: next(iter(settings)))
def test_limits_need_a_coordinator(settings: dict[str, Any]) -> None:
    """Without one they cannot be kept, and are never accepted silently."""
    with pytest.raises(ConfigurationError, match="parrot_coordination is 'none'"):
        read(**settings)
    read(broker_url=REDIS, **settings)


def test_limits_are_read() -> None:
    kinds = {"r": {"task": "t", "max_in_flight": 2, "exclusion_group": "gpu", "overlap": "buffer_one"}}
    settings = read(broker_url=REDIS, parrot_kinds=kinds, parrot_exclusion_groups={"gpu": 2}, parrot_max_concurrent="4")
    kind = settings.kinds["r"]
    assert (kind.max_in_flight, kind.exclusion_group, kind.overlap) == (2, "gpu", "buffer_one")
    assert (settings.exclusion_groups, settings.max_concurrent) == ({"gpu": 2}, 4)
    assert settings.warnings == ()


def test_a_group_needs_no_capacity_of_its_own() -> None:
    """It has 1."""
    assert read(broker_url=REDIS, parrot_kinds={"r": {"task": "t", "exclusion_group": "x"}}).exclusion_groups == {}


BAD_LIMITS: list[tuple[dict[str, Any], str, str]] = [
    ({"parrot_max_concurrent": 0}, "parrot_max_concurrent", "whole number of at least 1"),
    ({"parrot_max_concurrent": 1.5}, "parrot_max_concurrent", "whole number of at least 1"),
    ({"parrot_max_concurrent": True}, "parrot_max_concurrent", "number"),
    ({"parrot_exclusion_groups": ["gpu"]}, "parrot_exclusion_groups", "dictionary"),
    ({"parrot_exclusion_groups": {"gpu": 0}}, "parrot_exclusion_groups['gpu']", "whole number of at least 1"),
    ({"parrot_exclusion_groups": {"gpu": None}}, "parrot_exclusion_groups['gpu']", "number"),
    ({"parrot_exclusion_groups": {" ": 1}}, "parrot_exclusion_groups[' ']", "not empty"),
    ({"parrot_exclusion_groups": {5: 1}}, "parrot_exclusion_groups[5]", "text"),
    (
        {"parrot_kinds": {"r": {"task": "t", "max_in_flight": -1}}},
        "parrot_kinds['r']['max_in_flight']", "number of at least 0",
    ),
    (
        {"parrot_kinds": {"r": {"task": "t", "max_in_flight": 0}}},
        "parrot_kinds['r']['max_in_flight']", "whole number of at least 1",
    ),
    (
        {"parrot_kinds": {"r": {"task": "t", "exclusion_group": ""}}},
        "parrot_kinds['r']['exclusion_group']", "not empty",
    ),
    (
        {"parrot_kinds": {"r": {"task": "t", "exclusion_group": "a" * 256}}},
        "parrot_kinds['r']['exclusion_group']", "longer than 255",
    ),
    ({"parrot_kinds": {"r": {"task": "t", "overlap": True}}}, "parrot_kinds['r']['overlap']", "not known"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "key", "reason"), BAD_LIMITS, ids=[f"{i}-{case[1]}" for i, case in enumerate(BAD_LIMITS)]
)
def test_a_limit_that_is_none_is_refused_by_name(settings: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(broker_url=REDIS, **settings)
    assert caught.value.key == key
    assert reason in caught.value.reason


@pytest.mark.parametrize("key", ["time_limit", "soft_time_limit"])
def test_a_time_limit_that_can_never_fit_stops_the_start(key: str) -> None:
    """A run would be ended as silent before it. One that just fits, or a task that reports progress, is fine."""
    with pytest.raises(ConfigurationError, match=rf"\['{key}'\] = 896.0: can never fit: .* after 900 s") as caught:
        read(parrot_kinds={"r": {"task": "t", key: 896}})
    assert "at most 895" in caught.value.fix
    with pytest.raises(ConfigurationError, match="after 60 s"):
        read(parrot_kinds={"r": {"task": "t", key: 51, "reap_after": 60}}, parrot_reap_margin=10)
    read(parrot_kinds={"r": {"task": "t", key: 895}})
    read(parrot_kinds={"r": {"task": "t", key: 7200, "progress": True}})
    read(parrot_kinds={"task": {key: 7200}})


def test_the_longest_grace_of_the_entries_counts_too() -> None:
    settings = read(parrot_fire_lock_ttl=400)
    check_graces(settings, {"nightly": None, "hourly": 400})
    with pytest.raises(ConfigurationError, match=r"misfire_grace \(500 s, weekly\)"):
        check_graces(settings, {"nightly": None, "weekly": 500.0, "hourly": 20})


# --- the database ---

DATABASE = "postgresql://u:s3cret@db.example/app"


def test_a_database_is_read_and_its_password_shown_nowhere() -> None:
    settings = read(
        broker_url=REDIS,
        parrot_database_url=DATABASE,
        parrot_database_schema="navigator",
        parrot_database_options={"pool_size": 3, "connect_args": {"password": "s3cret"}},
    )
    assert settings.database is not None
    assert (settings.database.url, settings.database.schema) == (DATABASE, "navigator")
    assert settings.database.options["pool_size"] == 3
    for text in (repr(settings), str(settings.database), repr(settings.database), str(describe(settings))):
        assert "s3cret" not in text
    assert "db.example" in describe(settings)["database"]
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("key", "settings", "says"),
    [
        ("parrot_database_url", {"parrot_database_url": "app.db"}, "is not a database URL"),
        ("parrot_database_url", {"parrot_database_url": 5}, "is not a database URL"),
        ("parrot_database_url", {"parrot_database_url": "postgersql://u:s3cret@h/d"}, "Did you mean 'postgresql'"),
        ("parrot_database_url", {"parrot_database_url": "oracle://u:s3cret@h/d"}, "oracle is no database"),
        ("parrot_database_schema", {"parrot_database_schema": "x"}, "says nothing without parrot_database_url"),
        ("parrot_database_options", {"parrot_database_options": {"a": 1}}, "says nothing without"),
        ("parrot_database_options", {"parrot_database_url": DATABASE, "parrot_database_options": 1}, "dictionary"),
        ("parrot_database_schema", {"parrot_database_url": DATABASE, "parrot_database_schema": "a.b"}, "plain name"),
        (
            "parrot_database_schema",
            {"parrot_database_url": "sqlite:///a.db", "parrot_database_schema": "a"},
            "SQLite has no schemas",
        ),
    ],
)
def test_a_database_that_cannot_be_used_is_refused(key: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        read(broker_url=REDIS, **settings)
    assert caught.value.key == key
    assert "s3cret" not in str(caught.value)


def test_a_database_overrides_coordination_none_where_redis_is_known() -> None:
    settings = read(broker_url=REDIS, parrot_database_url=DATABASE, parrot_coordination="none")
    assert settings.coordination == "redis"
    assert settings.redis is not None
    (sentence,) = settings.warnings
    assert "parrot_coordination is none, but" in sentence
    assert "s3cret" not in sentence


def test_a_store_that_is_handed_in_does_so_too() -> None:
    app = Celery("test", set_as_current=False, broker=REDIS)
    app.conf.update(parrot_coordination="none")
    assert load(app, {}).coordination == "none"
    assert load(app, {}, attached=["redis"]).coordination == "redis"


def test_a_database_without_redis_names_the_fix() -> None:
    with pytest.raises(ConfigurationError, match=r"Set parrot_coordination = 'db', or parrot_redis_url"):
        read(parrot_database_url=DATABASE)


def test_coordination_through_the_database_uses_no_redis() -> None:
    """Not even the broker's."""
    settings = read(broker_url=REDIS, parrot_database_url=DATABASE, parrot_coordination="db")
    assert (settings.coordination, settings.redis, settings.warnings) == ("db", None, ())
    assert "s3cret" not in describe(settings)["coordination"]
    assert describe(settings)["coordination"].startswith("db (postgresql://")


def test_a_redis_url_that_is_not_used_is_said_to_be() -> None:
    """There is no Redis store beside coordination in the database."""
    settings = read(parrot_redis_url=REDIS, parrot_database_url=DATABASE, parrot_coordination="db")
    assert "parrot_redis_url is set, but" in settings.warnings[0]


# --- allowed tasks ---


def test_every_task_is_allowed_unless_some_are_named() -> None:
    """An empty list allows none but Celery's own; a text may hold several with commas."""
    assert read().allowed_tasks.allows("whatever")
    assert not read(parrot_allowed_tasks=[]).allowed_tasks.allows("t.a")
    both = read(parrot_allowed_tasks="t.a, reports.*").allowed_tasks
    assert [both.allows(name) for name in ("t.a", "reports.x.y", "T.A", "t.ab")] == [True, True, False, False]
    assert both.allows("celery.backend_cleanup")


@pytest.mark.parametrize("value", [7, {"a": 1}, [7], ["t.a", ""], "t.a,", ["t a"]])
def test_what_is_no_list_of_tasks_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="parrot_allowed_tasks"):
        read(parrot_allowed_tasks=value)


# --- warnings ---


def test_an_unknown_setting_is_a_warning_with_the_closest_name() -> None:
    (sentence,) = read(parrot_kind={"a": 1}).warnings
    assert "parrot_kind is no setting" in sentence
    assert "'parrot_kinds'" in sentence


def test_a_setting_that_nothing_uses_yet_is_said() -> None:
    (sentence,) = read(parrot_share_delay=1).warnings
    assert sentence.startswith("parrot_share_delay is set")


def test_alerts_without_a_mail_server_are_said_to_be_logged_only() -> None:
    (sentence,) = read({"SCHEDULER_ALERT_RECIPIENTS": "a@b.example"}).warnings
    assert sentence.startswith("parrot_alert_recipients [SCHEDULER_ALERT_RECIPIENTS] is set")
    assert "only logged" in sentence


# --- credentials ---


def test_no_text_form_of_the_settings_shows_a_password() -> None:
    settings = read(broker_url=REDIS, parrot_redis_options={"password": "s3cret"})
    assert settings.redis is not None
    for text in (repr(settings), str(settings.redis), repr(settings.redis), str(describe(settings))):
        assert "s3cret" not in text
    assert "redis.example" in str(describe(settings))


def test_no_error_shows_a_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(parrot_redis_url="amqp://user:s3cret@host/")
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(caught.value.value)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("redis://:p@h:1/0", "redis://:**@h:1/0"),
        ("redis://u:p@h;redis://u:q@i", "redis://u:**@h;redis://u:**@i"),
        ("cannot reach 'amqp://u:p@h//'", "cannot reach 'amqp://u:**@h//'"),
        ("redis://h/0?password=p&ssl=1", "redis://h/0?password=**&ssl=1"),
        ("mysql://h/d?user=u&passwd=p", "mysql://h/d?user=u&passwd=**"),
        ("postgresql://u:p,q;r@h/d", "postgresql://u:**@h/d"),
        ("sentinel://a:1;sentinel://u:p@b:1", "sentinel://a:1;sentinel://u:**@b:1"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("nothing at all", "nothing at all"),
    ],
)
def test_mask(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_shown_masks_inside_of_containers() -> None:
    assert shown({"password": "x", "url": "redis://:p@h", "n": [1, "amqp://u:p@h"]}) == {
        "password": "**", "url": "redis://:**@h", "n": [1, "amqp://u:**@h"],
    }  # fmt: skip
