"""One try after another: in order, each for itself, only what is not delivered yet; nothing secret in the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from celery.exceptions import WorkerShutdown

from celery_parrot.delivery import Job, NotDelivered, Retries, deliver
from celery_parrot.protocols import About, DeliveryReport, Message, Parcel
from tests.unit.delivery.stories import FIRE, means, parcel


class Ears:
    """Callbacks of the app that note what they were told, and fail while asked to."""

    def __init__(self, *names: str) -> None:
        self.heard: list[tuple[str, str]] = []
        self.failing: dict[str, BaseException] = {}
        self.means = means(own={name: self.ear(name) for name in names})

    def ear(self, name: str) -> Callable[..., None]:
        def hear(story: Parcel, key: str, **options: Any) -> None:
            self.heard.append((name, key))
            if name in self.failing:
                raise self.failing[name]

        return hear


def told(report: DeliveryReport) -> list[tuple[str, str, int]]:
    return [(one.callback, str(one.status), one.tries) for one in report.callbacks]


def specs(*names: str) -> list[dict[str, Any]]:
    return [{"type": name} for name in names]


def test_one_that_fails_stops_no_other() -> None:
    """Two of three raises: one and three are delivered, each is recorded."""
    ears = Ears("a", "b", "c")
    ears.failing["b"] = ValueError("no")
    report = deliver(Job(parcel=parcel(), callbacks=specs("a", "b", "c")), ears.means, last=False)
    assert [name for name, _ in ears.heard] == ["a", "b", "c"]
    assert told(report) == [("a", "delivered", 1), ("b", "retrying", 1), ("c", "delivered", 1)]
    assert report.callbacks[1].error == "ValueError: no"
    assert report.status == "retrying"


def test_one_that_would_end_the_process_stops_no_other() -> None:
    """sys.exit in a callback is a failure of it; what Celery raises to stop a worker still stops it."""
    ears = Ears("a", "b")
    ears.failing["a"] = SystemExit(2)
    job = Job(parcel=parcel(), callbacks=specs("a", "b"))
    report = deliver(job, ears.means, last=False)
    assert told(report) == [("a", "retrying", 1), ("b", "delivered", 1)]
    assert report.callbacks[0].error == "the callback called sys.exit(2)"
    ears.failing["a"] = WorkerShutdown(0)
    with pytest.raises(WorkerShutdown):
        deliver(job, ears.means, last=False)


def test_a_try_that_nobody_lived_to_tell_of_sends_nothing() -> None:
    """A callback that kills its process comes up again after a pause, and not for ever."""
    ears = Ears("a", "b")
    job = Job(parcel=parcel(), callbacks=specs("a", "b"), tries=2)
    report = deliver(job, ears.means, last=False, died=True)
    assert ears.heard == []
    assert told(report) == [("a", "retrying", 1), ("b", "retrying", 1)]
    assert "ended before it could say" in report.callbacks[0].error
    last = deliver(Job(parcel=parcel(), callbacks=specs("a", "b"), tries=5), ears.means, last=True, died=True)
    assert (ears.heard, last.status) == ([], "failed")


def test_only_what_failed_is_tried_again() -> None:
    """Under the same key."""
    ears = Ears("a", "b", "c")
    ears.failing["b"] = ValueError("no")
    job = Job(parcel=parcel(), callbacks=specs("a", "b", "c"))
    first = deliver(job, ears.means, last=False)
    ears.failing.clear()
    second = deliver(
        Job(parcel=job.parcel, callbacks=job.callbacks, before=first.callbacks, tries=2), ears.means, last=False
    )
    assert [heard for heard in ears.heard if heard[0] == "b"] == [("b", f"{FIRE}:success:1")] * 2
    assert len(ears.heard) == 4
    assert told(second) == [("a", "delivered", 1), ("b", "delivered", 2), ("c", "delivered", 1)]
    assert second.status == "delivered"


@pytest.mark.parametrize(("failing", "status"), [(("a", "b"), "failed"), (("a",), "partial"), ((), "delivered")])
def test_after_the_last_try_it_has_failed(failing: tuple[str, ...], status: str) -> None:
    """And is not tried again."""
    ears = Ears("a", "b")
    ears.failing = {name: ValueError("no") for name in failing}
    job = Job(parcel=parcel(), callbacks=specs("a", "b"))
    report = deliver(job, ears.means, last=True)
    assert report.status == status
    again = Job(parcel=job.parcel, callbacks=job.callbacks, before=report.callbacks, tries=2)
    assert deliver(again, ears.means, last=True).status == status
    assert len(ears.heard) == 2


def test_what_is_refused_for_good_is_not_tried_again() -> None:
    ears = Ears("a")
    ears.failing["a"] = NotDelivered("gone", final=True)
    report = deliver(Job(parcel=parcel(), callbacks=specs("a")), ears.means, last=False)
    assert (report.status, report.callbacks[0].error) == ("failed", "gone")


def test_a_task_is_sent_with_the_story() -> None:
    """First the story, then its own arguments; the id is the same each time."""
    sent: list[Message] = []
    spec = {
        "type": "task",
        "task": "a.b",
        "args": [1],
        "kwargs": {"x": 2},
        "options": {"queue": "q", "headers": {"h": 1}},
    }
    for _ in range(2):
        job = Job(parcel=parcel(output="é😀"), callbacks=[spec])
        assert deliver(job, means(send_task=sent.append), last=False).status == "delivered"
    assert sent[0] == sent[1]
    story, *rest = sent[0].args
    assert (rest, sent[0].kwargs, sent[0].options, sent[0].headers) == ([1], {"x": 2}, {"queue": "q"}, {"h": 1})
    assert json.loads(json.dumps(story))["output"] == "é😀"
    assert Parcel.from_json(story) == parcel(output="é😀")


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"type": "notify", "url": "slack://s3cret-token-x/b/c"}, "Apprise"),
        ({"type": "nobody", "password": "s3cret-token-x"}, "no callback 'nobody' is registered"),
        ({"type": "task", "task": "t", "kwargs": {"p": "s3cret-token-x"}}, "s: **"),
        ({"type": "webhook", "url": "https://u:s3cret-token-x@h.example/"}, "user or password"),
        ({"type": "webhook", "url": "https://h.example/s3cret-token-x"}, "RuntimeError: /** of h.example"),
        ({"type": "email", "to": 5}, "recipients cannot be read"),
        ({"type": "file", "path": ["x"]}, "parrot_file_root"),
        ({}, "no callback"),
    ],
)
def test_no_report_shows_a_secret(spec: dict[str, Any], error: str) -> None:
    """Nor does anything that was written past the checks raise."""

    def refuse(message: Message) -> None:
        raise RuntimeError(f"s: {message.kwargs['p']}")

    def resolve(host: str, port: int) -> list[str]:
        raise RuntimeError(f"/s3cret-token-x of {host}")

    report = deliver(Job(parcel=parcel(), callbacks=[spec]), means(send_task=refuse, resolve=resolve), last=True)
    (one,) = report.callbacks
    assert one.status == "failed"
    assert error in one.error
    assert "s3cret" not in f"{one.callback} {one.error}"


def test_an_endless_error_is_cut_and_an_unprintable_one_is_told() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ValueError

    ears = Ears("a", "b", "c")
    ears.failing = {"a": ValueError("x" * 10_000_000), "b": Unprintable(), "c": ValueError("\ud800 \n\0\n and more")}
    report = deliver(Job(parcel=parcel(), callbacks=specs("a", "b", "c")), ears.means, last=True)
    errors = [one.error for one in report.callbacks]
    assert len(errors[0]) < 600
    assert errors[1].startswith("Unprintable")
    assert errors[2] == "ValueError: ? and more"


def test_pauses_grow_to_ten_minutes_together() -> None:
    """Five tries."""
    retries = Retries()
    pauses = [retries.pause(tries) for tries in range(1, 6)]
    assert pauses == [7, 28, 112, 448, None]


@pytest.mark.parametrize("about", list(About))
def test_a_parcel_survives_the_wire(about: About) -> None:
    """Whatever is in it; a field of a later release is left out."""
    story = parcel(about, output="\0é😀", error=None, count=3, failures=2)
    assert Parcel.from_json(json.loads(json.dumps({**story.to_json(), "later": 1}))) == story
