"""The shells of the pages, and the files that fill them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

import celery_parrot.flower
from celery_parrot.flower.pages.routes import ASSETS, PAGES
from tests.integration.flower.served import Served

Start = Callable[..., Served]

TEMPLATES = Path(celery_parrot.flower.__file__).parent / "templates" / "parrot"
SHELLS = ("schedules", "schedules/new", "schedules/nightly", *PAGES)
MODULES = sorted(ASSETS.glob("*.js"))
HOSTILE = "\"><script>alert(1)</script>{{ 1 }}' é/.."

_TAG = re.compile(r"<script\b[^>]*>(.*?)</script>", re.DOTALL)
_HANDLER = re.compile(r"<[^>]*\son[a-z]+=", re.IGNORECASE)
_IMPORT = re.compile(r"import\s*\{([^}]*)\}\s*from\s*'\./([a-z_]+\.js)'")
_EXPORT = re.compile(r"export\s+(?:async\s+)?(?:function|class|const)\s+(\w+)")
_EXPORTS = re.compile(r"export\s*\{([^}]*)\}")


@pytest.mark.parametrize("page", SHELLS)
def test_a_page_is_a_shell_whose_module_is_there(start: Start, page: str) -> None:
    """Its title, its own style sheet and module; no script in it, and none that the browser would run."""
    served = start()
    answer = served.get(f"/parrot/{page}")
    assert answer.status == 200
    assert 'id="parrot-page"' in answer.body
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"]
    assert not [script for script in _TAG.findall(answer.body) if script.strip()]
    assert not _HANDLER.search(answer.body)
    assert '<a class="task-state-filter active"' in answer.body
    (module,) = re.findall(r'<script type="module" src="([^"]+)">', answer.body)
    (style,) = re.findall(r'<link rel="stylesheet" href="(/parrot/[^"]+)">', answer.body)
    for path, kind in ((module, "javascript"), (style, "css")):
        found = served.get(path)
        assert (found.status, kind in found.headers["Content-Type"]) == (200, True), path
        assert found.headers["Cache-Control"] == "no-cache"


def test_every_page_has_flowers_prefix(start: Start) -> None:
    """Behind a proxy that serves Flower under a path, every address of a page is under it."""
    served = start(url_prefix="tools/flower")
    body = served.get("/tools/flower/parrot/schedules").body
    assert 'data-parrot="/tools/flower/parrot"' in body
    assert not re.findall(r'(?:href|src)="/parrot', body)
    assert served.get("/tools/flower/parrot").headers["Location"] == "/tools/flower/parrot/schedules"
    assert served.get("/tools/flower/parrot/static/parrot.css").status == 200
    assert served.get("/parrot/schedules").status == served.get("/parrot/api/fires").status == 404


def test_whatever_the_address_names_is_shown_inert(start: Start) -> None:
    """The name in the address reaches the page as the value of an attribute, whole."""
    body = start().get(f"/parrot/schedules/{quote(HOSTILE, safe='')}").body
    (shown,) = re.findall(r'data-schedule="([^"]*)"', body)
    assert html.unescape(shown) == HOSTILE
    assert "<script>alert" not in body


def test_a_page_says_why_nothing_can_be_changed(start: Start) -> None:
    """Once, and nothing where writing is allowed."""
    refused = start().get("/parrot/schedules").body
    assert refused.count('id="parrot-why-not"') == 1
    assert "--basic_auth" in refused
    served = start(basic_auth=["ann:secret"])
    allowed = served.get("/parrot/schedules", Authorization="Basic YW5uOnNlY3JldA==").body
    assert "parrot-why-not" not in allowed
    assert 'data-why-not=""' in allowed


@pytest.mark.parametrize("path", ["../bridge/handlers.py", "..%2Fplugin.py", "nothing.js", "", "parrot.css/x"])
def test_only_the_files_of_the_pages_are_served(start: Start, path: str) -> None:
    """No way out of their folder."""
    assert start().get(f"/parrot/static/{path}").status == 404


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_modules_import_what_there_is(module: Path) -> None:
    """A name that another module does not export would leave a page empty."""
    for names, other in _IMPORT.findall(module.read_text("utf-8")):
        wanted = {name.split(" as ")[0].strip() for name in names.split(",")} - {""}
        assert wanted <= _exported(ASSETS / other), f"{module.name} wants of {other}"


def test_nothing_reaches_a_page_as_markup() -> None:
    """All that comes from outside is put in as text: no module knows another way."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|javascript:"
    )
    assert MODULES
    assert not [module.name for module in MODULES if forbidden.search(module.read_text("utf-8"))]
    assert not [page.name for page in TEMPLATES.glob("*.html") if "{% raw" in page.read_text("utf-8")]


def _exported(module: Path) -> set[str]:
    text = module.read_text("utf-8")
    listed = {name.strip() for names in _EXPORTS.findall(text) for name in names.split(",")} - {""}
    return listed | set(_EXPORT.findall(text))
