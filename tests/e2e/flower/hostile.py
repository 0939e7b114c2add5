"""Texts that would do something to a page which took them for markup, and the mark they would leave."""

from __future__ import annotations

from typing import Final

#: A variable of the page's window that only an injected script sets.
MARK: Final = "parrotInjected"

#: The class of elements that only injected markup makes.
CLASS: Final = "parrot-injected"

MARKUP: Final = (
    f'</script><script>window.{MARK}=1;alert(1)</script><img class={CLASS} src=x onerror="window.{MARK}=2;alert(2)">'
    f'\'"><b class={CLASS}>bold</b>{{{{ 7*7 }}}}{{% raw 1 %}}<a class={CLASS} href="javascript:alert(3)">x</a>'
)

#: The longest name that the client takes, in one unbreakable word.
LONG_NAME: Final = "n" * 255
LONG: Final = "Ω" * 10_000

#: What a person may call a schedule. None has a control character; the client refuses those.
NAMES: Final = (
    f"<script>window.{MARK}=1;alert(1)</script>",
    f"<img class={CLASS} src=x onerror=alert(1)>",
    "quotes ' \" ` &amp; \\ back/slash ../up?a=b#c %2F%00",
    "\u202eright to left\u202c עברית",
    "emoji 🦜👩‍👩‍👧‍👦 é",
    LONG_NAME,
    "api",
    "new",
)
