"""Metrics: what is counted, with which labels, and that nothing of a schedule, fire, tenant or payload is in one."""

from __future__ import annotations

import json
import logging
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from celery_parrot.instrumentation import Metrics
from celery_parrot.instrumentation import metrics as names
from celery_parrot.model import events
from celery_parrot.model.events import Event

DOCS = Path(__file__).parents[3] / "docs"
LABELS = {
    names.FIRES: {"kind", "status"},
    names.CLAIMS: {"outcome"},
    names.FAILURES: {"reason"},
    names.LATENESS: set(),
    names.TICK: set(),
    names.WAITING: {"group"},
    names.SCHEDULES: {"store", "state"},
    names.BEATS: set(),
}
POISON = "x-of-a-tenant"


def page(metrics: Metrics) -> str:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def samples(metrics: Metrics) -> dict[tuple[Any, ...], float]:
    """``(name, label values…)`` to value, with labels by name."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page(metrics))
        for sample in family.samples
    }


def told(name: str, level: int = logging.INFO, **fields: Any) -> Event:
    return Event(name, level, POISON, {"schedule": POISON, "fire_id": POISON, "tenant": POISON, **fields})


def test_there_are_the_metrics_of_the_design_and_no_other() -> None:
    """Names, types and labels, as Prometheus reads them."""
    families = list(text_string_to_metric_families(page(Metrics())))
    shown = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert shown == LABELS.keys()
    assert all(family.documentation for family in families)
    types = {family.name: family.type for family in families}
    assert {types[names.LATENESS], types[names.TICK]} == {"histogram"}
    assert {types[names.WAITING], types[names.SCHEDULES], types[names.BEATS]} == {"gauge"}


def test_no_label_takes_a_value_of_a_schedule_fire_tenant_or_payload() -> None:
    """Whatever events carry in whatever field."""
    metrics = Metrics(["report"], ["gpu"])
    every = [value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)]
    for name in every:
        for kind in ("report", POISON, None, 7):
            fields = {"kind": kind, "reason": POISON, "worker": POISON, "limit": POISON, "store": POISON}
            metrics.emit(told(name, logging.ERROR, **fields))
            metrics.emit(told(name, logging.ERROR, status=POISON, **fields))
    for name in names.HEARD:
        metrics.heard(name, {"kind": POISON, "status": POISON, "reason": POISON, "args": POISON})
    metrics.waiting = lambda: {f"group:{POISON}": 1, f"schedule:{POISON}": 2, "group:gpu": 3, "slots": 4}
    text = page(metrics)
    assert POISON not in text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = re.sub("_(bucket|count|sum)$", "", sample.name)
            assert set(sample.labels) - {"le"} == LABELS[name]
            for label, value in sample.labels.items():
                found.setdefault(label, set()).add(value)
    assert found["kind"] <= {"task", "report", names.OTHER}
    assert found["status"] == {str(status) for status in names.STATUSES}
    assert found["reason"] == set(names.REASONS)
    assert found["outcome"] == set(names.OUTCOMES)
    assert found["group"] == {"gpu", "slots", names.OTHER}
    assert samples(metrics)[names.WAITING, names.OTHER] == 3


def test_each_event_counts_once() -> None:
    metrics = Metrics(["report"])
    metrics.emit(told(events.FIRE_CLAIMED, kind="report"))
    metrics.emit(told(events.CLAIM_LOST, kind="report"))
    metrics.emit(told(events.FIRE_SENT, kind="report", late=0.04, attempt=1))
    metrics.emit(told(events.FIRE_SENT, kind="report", late=900.0, attempt=2))  # recovered: not late by our doing
    metrics.emit(told(events.FIRE_MISSED, kind="report", status="missed", count=7))
    metrics.emit(told(events.FIRE_SKIPPED, kind="report", status="skipped", count=3))
    metrics.emit(told(events.FIRE_REAPED, kind="report", status="abandoned", reason="worker lost"))
    metrics.emit(told(events.FIRE_REAPED, kind="report", status="pending", reason="worker lost"))  # goes on
    metrics.emit(told(events.FIRE_EXPIRED, kind="report", status="error", reason="expired waiting for group gpu"))
    metrics.emit(told(events.FIRE_FAILED, kind="report", error=POISON))
    metrics.heard(events.FIRE_SUCCEEDED, {"kind": "report", "status": "success"})
    metrics.heard(events.FIRE_FAILED, {"kind": "report", "status": "error"})
    seen = samples(metrics)
    wanted = {"sent": 2, "missed": 7, "skipped": 3, "abandoned": 1, "error": 3, "success": 1}
    for status in names.STATUSES:
        assert seen[names.FIRES, "report", str(status)] == wanted.get(str(status), 0), status
    assert (seen[names.CLAIMS, "won"], seen[names.CLAIMS, "lost"]) == (1, 1)
    assert (seen[names.FAILURES, "worker_lost"], seen[names.FAILURES, "expired_waiting"]) == (2, 1)
    assert seen[names.FAILURES, "unsendable"] == 1
    assert seen[f"{names.LATENESS}_count",] == 1
    assert seen[f"{names.LATENESS}_bucket", "0.05"] == 1
    assert seen[f"{names.LATENESS}_bucket", "0.025"] == 0


def test_what_is_over_is_no_failure() -> None:
    """``store is back`` has the name of the failure and a lower level."""
    metrics = Metrics()
    metrics.emit(told(events.STORE_FAILED, logging.ERROR, store="db"))
    metrics.emit(told(events.STORE_FAILED, logging.INFO, store="db"))
    assert samples(metrics)[names.FAILURES, "store_failed"] == 1


def test_threads_count_and_show_at_once() -> None:
    metrics = Metrics()

    def count() -> None:
        for _ in range(500):
            metrics.emit(told(events.FIRE_SENT, kind="task", late=0.0))
            metrics.emit(told(events.TICK_COMPLETED, took=0.002))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        page(metrics)
    assert samples(metrics)[names.FIRES, "task", "sent"] == 2000
    assert samples(metrics)[f"{names.TICK}_count",] == 2000


# --- the pages ---


def test_the_page_lists_every_metric_and_label_value() -> None:
    text = (DOCS / "metrics.md").read_text()
    rows = dict(re.findall(r"^\| `(parrot_\w+)(?:\{[\w,]+\})?` \| (\w+) \|", text, re.MULTILINE))
    assert rows.keys() == LABELS.keys()
    for name, labels in LABELS.items():
        written = re.search(rf"^\| `{name}(?:\{{([\w,]+)\}})?` ", text, re.MULTILINE)
        assert written is not None
        assert {*(written[1] or "").split(",")} - {""} == labels
    for value in (*names.REASONS, *names.OUTCOMES, *map(str, names.STATUSES)):
        assert f"`{value}`" in text, value


def _queries(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["expr"]] if "expr" in node else []
        return own + [query for value in node.values() for query in _queries(value)]
    return [query for value in node for query in _queries(value)] if isinstance(node, list) else []


def test_the_dashboard_asks_for_our_metrics_only() -> None:
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    queries = _queries(dashboard)
    asked = {
        re.sub("_(bucket|count|sum)$", "", name) for query in queries for name in re.findall(r"\bparrot_\w+", query)
    }
    assert asked == LABELS.keys()
    for query in queries:
        assert re.search(r"\bparrot_", query), query
        used = {label.strip() for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(",")}
        known = {label for labels in LABELS.values() for label in labels} | {"le", "instance"}
        assert used <= known, query


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    """The fields that an import needs; panels that do not overlap, each with its source and its queries."""
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= dashboard.keys()
    assert dashboard["id"] is None
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    cells: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        assert panel["title"]
        assert panel["type"] in {"timeseries", "stat"}
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == sorted(set(refs))
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & cells
        assert at["x"] + at["w"] <= 24
        cells |= mine


@pytest.mark.parametrize("value", ["9100x", 0, 70000, True])
def test_a_port_that_is_none_is_refused(value: object) -> None:
    from celery import Celery

    from celery_parrot.errors import ConfigurationError
    from celery_parrot.runtime.config import load

    app = Celery("ports", broker="memory://", set_as_current=False)
    app.conf.parrot_metrics_port = value
    with pytest.raises(ConfigurationError, match="parrot_metrics_port"):
        load(app, environ={})


def test_metrics_without_the_package_are_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the beat, which would show them; workers and clients do not need it."""
    import sys

    from celery_parrot.errors import ConfigurationError
    from celery_parrot.runtime.config import Settings
    from celery_parrot.runtime.metrics import metrics

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigurationError, match=r"parrot_metrics_port.*celery-parrot\[metrics\]"):
        metrics(Settings(metrics_port=9100))
    assert metrics(Settings()) is None
