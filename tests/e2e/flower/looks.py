"""What can be judged of a page without eyes: width, overlap, contrast, names of what can be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

from tests.e2e.flower.hostile import CLASS, MARK

_SCRIPT: Final = Path(__file__).with_name("looks.js").read_text()
_FIELDS: Final = ("checkbox", "combobox", "listbox", "radio", "searchbox", "slider", "spinbutton", "switch", "textbox")
_USED: Final = frozenset({*_FIELDS, "button", "link", "menuitem", "tab"})


def faults(page: Page) -> list[str]:
    """What is wrong with the page as it stands there, a sentence each."""
    found: list[str] = page.evaluate(_SCRIPT)
    return found


def injected(page: Page) -> list[str]:
    """What hostile texts did to the page: scripts that ran, elements that were made. Dialogs are faults of the tab."""
    ran = page.evaluate(f"window.{MARK}")
    made = page.locator(f".{CLASS}").count()
    return [f"a script ran: {ran}"] * (ran is not None) + [f"{made} elements were made"] * (made > 0)


def nameless(page: Page) -> list[str]:
    """The roles of what can be used and has no name, as the browser itself works it out for screen readers."""
    session = page.context.new_cdp_session(page)
    try:
        nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        session.detach()
    return [
        node["role"]["value"]
        for node in nodes
        if not node["ignored"]
        and node.get("role", {}).get("value") in _USED
        and not str(node.get("name", {}).get("value", "")).strip()
    ]
