"""Fires as they happen, as Flower hears of them: ``/parrot/api/events``."""

from __future__ import annotations

import asyncio
from typing import Final

from tornado.iostream import StreamClosedError

from celery_parrot.flower.bridge import ApiHandler
from celery_parrot.flower.feed import Subscription

BEAT: Final = 15.0
"""Seconds after which a comment keeps the connection of a quiet stream."""
SLOW: Final = 10.0
"""Seconds that a browser may take to read what it was sent."""
GATHER: Final = 0.1
"""Seconds that changes are gathered before they are sent: a rush must not cost the loop a turn a fire and browser."""
AGAIN: Final = 3000
"""Milliseconds after which a browser that lost the stream asks again."""


class Events(ApiHandler):
    """One ``fire`` event a change, with its record; with ``Last-Event-ID`` those since then first."""

    async def get(self) -> None:
        """Send until the browser leaves, or is too slow."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")  # nginx would keep events back
        feed, loop, news = self.desk.feed, asyncio.get_running_loop(), asyncio.Event()
        self._news = news
        subscription = feed.subscribe(
            lambda: loop.call_soon_threadsafe(loop.call_later, GATHER, news.set),
            self.request.headers.get("Last-Event-ID", ""),
        )
        try:
            await self._send(f"retry: {AGAIN}\n\n")
            while not (subscription.dropped or self._left):
                await self._send(await self._next(subscription))
        except (StreamClosedError, TimeoutError):
            pass
        finally:
            feed.unsubscribe(subscription)
            if not self._left:
                self.detach().close()

    _left = False
    _news: asyncio.Event | None = None

    def on_connection_close(self) -> None:
        """The browser has left."""
        self._left = True
        if self._news is not None:
            self._news.set()

    async def _next(self, subscription: Subscription) -> str:
        assert self._news is not None
        if not subscription.waits:
            try:
                await asyncio.wait_for(self._news.wait(), BEAT)
            except TimeoutError:
                return ": nothing new\n\n"
        self._news.clear()
        return "".join(f"id: {one.mark}\nevent: fire\ndata: {one.text}\n\n" for one in subscription.take())

    async def _send(self, text: str) -> None:
        self.write(text)
        await asyncio.wait_for(self.flush(), SLOW)
