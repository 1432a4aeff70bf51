"""The server of the page, on 127.0.0.1 only: its address contains a random word.

`python -m offload.documents.live.server` serves it in the background: it prints the line
`ready PID URL`, or an error. It is no child of the process that started it, has no terminal, and
runs at the lowest priority. Its addresses::

    /WORD/        the page
    /WORD/events  its content, as server-sent events
    /WORD/report  the report of a run that has ended
    any other path, or another host name than 127.0.0.1 and localhost: 404
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from offload.documents.html_report import fill_template
from offload.documents.live import READY, RUN
from offload.documents.live.view import BROKEN, RUNNING, PipeView, RunView, Source, View

HOSTS = r"(?i)(127\.0\.0\.1|localhost)"  # of any port, for one that ssh forwards
WORD_BYTES = 24
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
PAGE_POLICY = (
    "img-src data:",
    "connect-src 'self'",
    "frame-ancestors 'none'",
)  # more than a report
REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"  # beside that in the report
EVERY = 1.0  # s between two readings


def main(arguments: Sequence[str]) -> int:
    """Serve what the arguments name; return the exit code."""
    kind, name, idle_s = arguments
    if os.fork():
        os._exit(0)
    _lower_priority()
    os.chdir("/")
    try:
        source: Source = RunView(Path(name)) if kind == RUN else PipeView(name, sys.stdin.fileno())
        asyncio.run(serve(source, float(idle_s), _report))
    except OSError as error:
        print(error.strerror, flush=True)
        return 1
    return 0


def _lower_priority() -> None:
    """Yield the CPU to what is measured, also if the kernel shares it between sessions first."""
    os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def _report(url: str) -> None:
    """Print the address, then close the streams: nobody reads them any more."""
    print(f"{READY}{os.getpid()} {url}", flush=True)
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)


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
        text, policy = fill_template("live", *PAGE_POLICY, title=self.feed.source.title)
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


class Stream(Protocol):
    """The connection of a browser."""

    def send(self, event: bytes) -> bool:
        """Send an event; return False if the browser has not yet taken the last one."""


class Feed:
    """Reads a source each second, once for all streams, and sends what has changed to them.

    A browser that is slow gets the newest content when it can take it, and nothing in between.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.view = self._read(None)
        self._event = _event(self.view)
        self._behind: dict[Stream, bool] = {}  # all streams, and whether they lack the event

    def add(self, stream: Stream) -> None:
        """Add a stream, and send it the content now."""
        clock = f"retry: 1000\nevent: clock\ndata: {time.time():.3f}\n\n".encode()
        self._behind[stream] = False
        stream.send(clock + self._event)

    def remove(self, stream: Stream) -> None:
        """Remove a stream whose browser has gone."""
        self._behind.pop(stream, None)

    async def run(self, idle_s: float) -> None:
        """Read and send until the source has ended and no browser was connected for `idle_s`."""
        without_s = 0.0  # counted in steps, so that a stopped process has not waited
        while without_s < idle_s:
            await asyncio.sleep(EVERY)
            view = self._read(self.view)
            if view != self.view:
                self.view, self._event = view, _event(view)
                self._behind = dict.fromkeys(self._behind, True)
            self.send()
            is_needed = bool(self._behind) or self.view.state == RUNNING
            without_s = 0.0 if is_needed else without_s + EVERY

    def send(self) -> None:
        """Send the content to each stream that lacks it."""
        for stream in [stream for stream, is_behind in self._behind.items() if is_behind]:
            is_sent = stream.send(self._event)
            if stream in self._behind:  # sending may show that its browser has gone
                self._behind[stream] = not is_sent

    def _read(self, last: View | None) -> View:
        try:
            return self.source.read()
        except (OSError, ValueError, LookupError, ArithmeticError, TypeError) as error:
            what = f"{self.source.title} cannot be read: {type(error).__name__}: {error}"
            rows = ((), ()) if last is None else (last.head, last.rows)
            return View(BROKEN, what, *rows)


def _event(view: View) -> bytes:
    return b"data: " + view.encode() + b"\n\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
