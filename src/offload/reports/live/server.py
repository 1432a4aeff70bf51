"""The server of the page, on 127.0.0.1 only: its address contains a random word.

::

    /WORD/        the page
    /WORD/events  its content, as server-sent events
    /WORD/report  the report of a run that has ended
    any other path, or another host name than 127.0.0.1 and localhost: 404
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from offload.reports.live import page
from offload.reports.live.feed import Feed
from offload.reports.live.view import Source

HOSTS = r"(?i)(127\.0\.0\.1|localhost)"  # of any port, for one that ssh forwards
WORD_BYTES = 24
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"  # beside that in the report


class _Handler(RequestHandler):
    def initialize(self, feed: Feed) -> None:
        self.feed = feed

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)


class _Page(_Handler):
    """The page, or the report if the run has one already."""

    def get(self) -> None:
        if self.feed.view.has_report:
            self.redirect("report")
            return
        text, policy = page.html(self.feed.source.title)
        self.set_header("Content-Security-Policy", policy)
        self.finish(text)


class _Report(_Handler):
    """The report of the run."""

    def get(self) -> None:
        text = self.feed.source.report()
        if text is None:
            raise HTTPError(404)
        self.set_header("Content-Security-Policy", REPORT_POLICY)
        self.finish(text)


class _Events(_Handler):
    """A stream of server-sent events, until the browser closes it."""

    async def get(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent: asyncio.Future[None] | None = None
        self.feed.add(self)
        await self._closed

    def send(self, event: bytes) -> bool:
        """Send an event, unless the last one is not yet taken."""
        if self._sent is not None and not self._sent.done():
            return False
        self.write(event)
        self._sent = self.flush()
        if self._sent.done() and self._sent.exception() is not None:
            # Tornado does not report the end of a connection that was closed before `get` ran.
            self.on_connection_close()
        return True

    def on_connection_close(self) -> None:
        self.feed.remove(self)
        if not self._closed.done():
            self._closed.set_result(None)


async def serve(source: Source, idle_s: float, on_ready: Callable[[str], None]) -> None:
    """Serve until the source has ended and no browser was connected for `idle_s`.

    `on_ready` is called with the address. Raise OSError if no port is free.
    """
    _be_quiet()
    feed, word = Feed(source), secrets.token_urlsafe(WORD_BYTES)
    known = {"feed": feed}
    application = Application(log_function=lambda _: None)
    application.add_handlers(
        HOSTS,
        [
            (rf"/{word}/", _Page, known),
            (rf"/{word}/events", _Events, known),
            (rf"/{word}/report", _Report, known),
        ],
    )
    server = HTTPServer(application)
    [listener] = bind_sockets(0, "127.0.0.1")
    server.add_socket(listener)
    on_ready(f"http://127.0.0.1:{listener.getsockname()[1]}/{word}/")
    try:
        await feed.run(idle_s)
    finally:
        server.stop()
        await server.close_all_connections()


def _be_quiet() -> None:
    """Leave Tornado's log of refused requests out."""
    logger = logging.getLogger("tornado")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
