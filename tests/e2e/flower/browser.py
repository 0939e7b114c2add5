"""Chromium, and a page that remembers all that went wrong in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    Response,
    sync_playwright,
)

from tests.support.services import unavailable

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


def chromium() -> str:
    """The browser's program; without one the test is skipped, or fails in CI."""
    named = os.environ.get("PARROT_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if named is None or not Path(named).exists():
        unavailable("Chromium", "Install chromium, or set PARROT_TEST_CHROMIUM to its program.")
    return named


def open_browser() -> Iterator[Browser]:
    """A browser with a profile of its own."""
    program = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


class Tab:
    """One tab. ``faults`` is what a person would find in the developer tools, and every dialog."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.faults: list[str] = []
        self._url = url
        self._expected: set[tuple[int, str]] = set()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.faults.append(f"{self.page.url}: uncaught {error}"))
        self.page.on("requestfailed", self._on_failed)
        self.page.on("response", self._on_response)
        self.page.on("dialog", self._on_dialog)

    def go(self, path: str) -> Page:
        """Open a page of Flower and wait until its first data are there."""
        answer = self.page.goto(self._url + path, wait_until="load")
        assert answer is not None
        assert answer.ok, f"{path}: {answer.status}"
        return self.page

    def expect(self, status: int, part: str) -> None:
        """An answer that this test provokes, and the browser's own line about it in the console."""
        self._expected.add((status, part))

    def check(self) -> None:
        """Nothing went wrong so far."""
        assert not self.faults, "\n".join(self.faults)

    def _on_console(self, message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        if message.type in ("error", "warning") and not self._is_expected(None, where):
            self.faults.append(f"{self.page.url}: console {message.type}: {message.text} ({where})")

    def _on_failed(self, request: Request) -> None:
        # A stream, or a search that a newer one replaced, ends with its page: that is no failure.
        if request.failure != "net::ERR_ABORTED":
            self.faults.append(f"{self.page.url}: {request.method} {request.url} failed: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400 and not self._is_expected(response.status, response.url):
            self.faults.append(f"{self.page.url}: {response.request.method} {response.url}: {response.status}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"{self.page.url}: dialog {dialog.message!r}")
        dialog.dismiss()

    def _is_expected(self, status: int | None, url: str) -> bool:
        return any(status in (None, wanted) and part in url for wanted, part in self._expected)


def new_context(browser: Browser, user: str, password: str, *, width: int) -> BrowserContext:
    """A visitor with a password, and a window of this width."""
    credentials: Any = {"username": user, "password": password}
    return browser.new_context(
        http_credentials=credentials,
        viewport={"width": width, "height": 900},
        color_scheme=SCHEMES[0],
        reduced_motion="reduce",  # what is judged is no colour on its way to another
        locale="en-GB",
        timezone_id="Europe/Lisbon",
    )
