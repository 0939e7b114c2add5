"""Run with one release of Flower: all that our bridge relies on. Prints the release when everything holds."""

from __future__ import annotations

import re
from importlib.metadata import version

from celery import Celery

from tests.integration.flower.served import Served, serve
from tests.support.waiting import wait_until

FIRE = {"scheduler": "scheduler_manager", "fire_id": "f1", "schedule": "nightly", "schedule_id": "n1", "kind": "task"}
BASIC = "Basic YW5uOnNlY3JldA=="  # ann:secret


def app() -> Celery:
    return Celery("flowers", broker="memory://", set_as_current=False)


def check_pages(served: Served) -> None:
    """Ours in Flower's frame, and our link on Flower's own pages, made as its others are."""
    for page in ("/ops/workers", "/ops/tasks", "/ops/nothing", "/ops/parrot/schedules"):
        body = served.get(page).body
        items = re.findall(r'<a class="(nav-link[^"]*)"\s+href="([^"]+)"[^>]*>([A-Z][a-z]+)</a>', body)
        assert [text for _, _, text in items][:4] == ["Workers", "Tasks", "Broker", "Schedules"], page
        found = {text: (classes.replace(" active", ""), href) for classes, href, text in items}
        assert found["Schedules"] == (found["Broker"][0], "/ops/parrot/schedules"), page
    assert served.get("/ops/parrot/schedules").status == 200
    assert served.get("/ops/parrot/static/parrot.css").status == 200


def check_events(served: Served) -> None:
    """Flower's receiver tells us and Flower; both have metrics."""
    served.tell("fire-sent", late=0.1, attempt=1, **FIRE)
    served.tell("worker-heartbeat", hostname="w@1", freq=2.0, active=0, processed=0, sw_ident="x", loadavg=[0, 0, 0])
    (item,) = served.get("/ops/parrot/api/fires").json["items"]
    assert item["status"] == "sent"
    wait_until(lambda: "flower_worker_online" in served.get("/ops/metrics").body, "Flower's metrics", 5)
    assert 'parrot_fires_total{kind="task",status="sent"} 1.0' in served.get("/ops/metrics").body


def check_access() -> None:
    """Flower's ways to authenticate are ours, and our own checks hold."""
    with serve(app(), basic_auth=["ann:secret"]) as served:
        assert served.get("/parrot/api/fires").status == served.get("/parrot/schedules").status == 401
        served.headers["Authorization"] = BASIC
        assert served.get("/parrot/api/fires").status == served.get("/parrot/schedules").status == 200
        assert served.post("/parrot/api/fires", Origin="http://elsewhere").error["type"] == "forbidden"
        assert served.post("/parrot/api/fires").status == 405
    with serve(app()) as served:
        answer = served.get("/parrot/api/fires")
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, None)
        assert served.post("/parrot/api/fires").error["type"] == "read_only"
    with serve(app(), auth="ann@example.com") as served:
        assert served.get("/parrot/schedules").headers["Location"] == "/login?next=%2Fparrot%2Fschedules"
        assert served.get("/parrot/api/fires").status == 401


def main() -> None:
    with serve(app(), url_prefix="ops") as served:
        check_pages(served)
        check_events(served)
    check_access()
    print(version("flower"))


if __name__ == "__main__":
    main()
