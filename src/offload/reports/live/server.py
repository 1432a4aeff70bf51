"""The server of the page, on 127.0.0.1 only: every address contains a random token.

::

    /TOKEN/        the page
    /TOKEN/events  its content, as server-sent events
    /TOKEN/report  the report of a run that has ended
    any other path, or another host name than 127.0.0.1 and localhost: 403 without a body
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable
from typing import NoReturn

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, Finish, RequestHandler

from offload.reports.live import page
from offload.reports.live.feed import Feed
from offload.reports.live.view import Source

HOSTS = ("127.0.0.1", "localhost")  # of any port, for one that ssh forwards
TOKEN_BYTES = 24
MOST_CONNECTIONS = 192  # each is an open file, and macOS allows 256 by default
REQUEST_S = 20.0  # a connection without a whole request is closed after this time
LARGEST_HEAD, LARGEST_BODY = 16_384, 1024  # bytes of a request
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "text/html; charset=utf-8",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"  # beside that in the report


class _Handler(RequestHandler):
    """Refuses every request that does not have the token and the name of this host."""

    def initialize(self, feed: Feed, token: str) -> None:
        self.feed, self._token = feed, token
        self._is_allowed = False

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.clear_header("Date")
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        name, colon, port = self.request.headers.get("Host", "").rpartition(":")
        host = name if colon and port.isdigit() else f"{name}{colon}{port}"
        given = "".join(self.request.path.split("/")[1:2])
        has_token = hmac.compare_digest(given.encode(), self._token.encode())
        self._is_allowed = has_token and host.lower() in HOSTS
        if not self._is_allowed:
            self._refuse(403)

    def _refuse(self, status: int) -> NoReturn:
        self.clear_header("Content-Type")
        self.set_status(status)
        raise Finish

    def write_error(self, status_code: int, **_: object) -> None:
        self.clear_header("Content-Type")
        self.set_status(status_code if self._is_allowed else 403)
        self.finish()


class _Nothing(_Handler):
    """Any other address."""

    def get(self) -> None:
        self._refuse(403)


class _Page(_Handler):
    """The page, or the report if the run has one already."""

    def get(self, _: str) -> None:
        if self.feed.view.has_report:
            self.redirect("report")
            return
        text, policy = page.html(self.feed.source.title)
        self.set_header("Content-Security-Policy", policy)
        self.finish(text)


class _Report(_Handler):
    """The report of the run."""

    def get(self, _: str) -> None:
        text = self.feed.source.report()
        if text is None:
            self._refuse(404)
        self.set_header("Content-Security-Policy", REPORT_POLICY)
        self.finish(text)


class _Events(_Handler):
    """A stream of server-sent events, until the browser closes it."""

    async def get(self, _: str) -> None:
        if self.feed.is_full:
            self._refuse(503)
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


class _Server(HTTPServer):
    """Closes connections above a maximum.

    If no descriptor were free for a connection, Tornado would try again in a loop without a pause,
    and use a CPU of the machine that is measured.
    """

    _open = 0

    def handle_stream(self, stream: IOStream, address: tuple[object, ...]) -> None:
        if self._open >= MOST_CONNECTIONS:
            stream.close()
            return
        self._open += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self._open -= 1
        super().on_close(server_conn)


async def serve(source: Source, idle_s: float, on_ready: Callable[[str], None]) -> None:
    """Serve until the source has ended and no browser was connected for `idle_s`.

    `on_ready` is called with the address. Raise OSError if no port is free.
    """
    _be_quiet()
    token = secrets.token_urlsafe(TOKEN_BYTES)
    feed = Feed(source)
    known = {"feed": feed, "token": token}
    application = Application(
        [
            (r"/([^/]*)/", _Page, known),  # each compares the token in constant time
            (r"/([^/]*)/events", _Events, known),
            (r"/([^/]*)/report", _Report, known),
        ],
        default_handler_class=_Nothing,
        default_handler_args=known,
        log_function=lambda _: None,
    )
    server = _Server(
        application,
        idle_connection_timeout=REQUEST_S,
        body_timeout=REQUEST_S,
        max_header_size=LARGEST_HEAD,
        max_body_size=LARGEST_BODY,
    )
    [listener] = bind_sockets(0, "127.0.0.1")
    server.add_socket(listener)
    on_ready(f"http://127.0.0.1:{listener.getsockname()[1]}/{token}/")
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
