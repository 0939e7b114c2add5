"""The app whose beats are measured. What it is set to comes from the environment."""

from __future__ import annotations

import json
import os

from celery import Celery

app = Celery("tests.benchmarks.stores_app", broker=os.environ["BENCH_BROKER"])
app.conf.result_expires = None  # no entry of Celery's own
app.conf.update(json.loads(os.environ.get("BENCH_SETTINGS", "{}")))
