"""The connections of one load process: each sends one request at a time, and reconnects if needed.

`Clients` owns them and records their samples; a loop (loops.py) decides when each sends a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import ssl
from dataclasses import dataclass
from time import monotonic
from typing import cast
from urllib.parse import urlsplit

import httptools

from offload import resource_limits
from offload.loads._load import Load, request_target
from offload.loads.engine.figures import Samples

KINDS = (
    (ConnectionRefusedError, "refused"),
    (ConnectionError, "reset"),
    (ssl.SSLError, "tls"),
    (OSError, "other"),
)
NO_HTTP, WRONG_BODY = -1, -2  # replace the HTTP status of invalid responses
FAILURES = {NO_HTTP: "other", WRONG_BODY: "body"}
MALFORMED = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class Connection(asyncio.Protocol):
    """A connection with at most one request in flight.

    `started` is the start time of the request in flight (None: no request). `sent` is the time at
    which it was written to a connected socket (None: not yet connected).

    `requests` counts the requests, `responses` the responses to them.

    `_good` is the last successful response that arrived in one piece and kept the connection open.
    The path of a request determines the tool's overhead: a request is one write, and the same clock
    reading ends a request and starts the next one.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.started: float | None = None
        self.sent: float | None = None
        self.requests = self.responses = 0
        self._request = clients.target.request
        self._keep_alive = clients.load.keep_alive
        self._note_started = clients.samples.started.append
        self._note_sent = clients.samples.sent.append
        self._note_ended = clients.samples.ended.append
        self._next = clients.next
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._status = 0  # of a complete response
        self._keep = False
        self._head = b""

    def send(self, started: float, now: float | None = None) -> None:
        """Send a request that started at `started`; open the connection if it is closed.

        `now` is the time at which it is sent; None if that is `started`.
        """
        self.started = started
        self.requests += 1
        if self._transport is not None:
            self.sent = started if now is None else now
            self._head = b""
            self._write(self._request)
        else:
            self.sent = None
            self._connecting = self.clients.loop.create_task(self._connect())

    def time_out(self) -> None:
        """Fail a request that exceeded its timeout."""
        self._fail("timeout")

    def close(self) -> None:
        """Drop the connection and any request on it."""
        self.started = None
        self._drop()

    async def _connect(self) -> None:
        target, loop = self.clients.target, self.clients.loop
        try:
            await loop.create_connection(lambda: self, target.host, target.port, ssl=target.secure)
        except OSError as error:
            self._connecting = None
            self._fail(next(kind for error_type, kind in KINDS if isinstance(error, error_type)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._connecting = cast(asyncio.Transport, transport), None
        self.sent = monotonic()
        self._write = self._transport.write
        self._status, self._head, self._good = 0, b"", b""
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self._write(self._request)

    def data_received(self, data: bytes) -> None:
        started = self.started
        if data == self._good and started is not None and not self._head:
            self._finish(200, started)  # equal bytes need not be parsed again
            return
        try:
            self._feed(data)
        except MALFORMED:
            self._keep = False
            self._status = self._status or NO_HTTP
        status = self._status
        if started is None:  # data without a request
            self._drop()
        elif status:
            self._status = 0
            if not self._keep:
                self._drop()
            elif 0 < status < 400 and not self._head:
                self._good = data
            self._finish(status, started)
        elif b"\r\n\r\n" not in self._head:  # a head may come in several pieces
            self._head += data

    def on_message_complete(self) -> None:
        """Record a complete response (called by httptools); a second one closes the connection."""
        status = self._parser.get_status_code()
        if self._status:
            self._keep = False
        elif status >= 200:
            self._status = self._checked(status)
            self._keep = self._keep_alive and self._parser.should_keep_alive()

    def _checked(self, status: int) -> int:
        """Return the status of a complete response; subclasses may return one of FAILURES."""
        return status

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:  # closed by this side
            return
        self._transport = None
        if self.started is None:
            return
        if error is None and ends_by_close(self._head):
            self._finish(self._checked(self._parser.get_status_code()), self.started)
        else:
            self._fail("tls" if isinstance(error, ssl.SSLError) else "reset")

    def _finish(self, status: int, started: float) -> None:
        now = monotonic()
        self.started = None
        self.responses += 1
        if 0 < status < 400:
            self._note_started(started)
            self._note_sent(self.sent or started)
            self._note_ended(now)
        else:
            kind = FAILURES.get(status) or ("4xx" if status < 500 else "5xx")
            self.clients.fail(kind, started, now)
        self._next(self, now)

    def _fail(self, kind: str) -> None:
        started, now = cast(float, self.started), monotonic()
        self.started = None
        self._drop()
        self.clients.fail(kind, started, now)
        self._next(self, now)

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None


def ends_by_close(head: bytes) -> bool:
    """Whether a response has no length, so that its body ends with the connection.

    False if `head` is incomplete.
    """
    head, end, _ = head.partition(b"\r\n\r\n")
    lower = head.lower()
    return bool(end) and b"content-length:" not in lower and b"chunked" not in lower


class ExpectedBody:
    """The body that every response must have. Before the first response only its hash is known."""

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256
        self.content: bytes | None = None

    def is_equal(self, body: bytes) -> bool:
        """Whether a body is the expected one; compute hashes only while its content is unknown."""
        if self.content is None and hashlib.sha256(body).hexdigest() == self._sha256:
            self.content = body
        return body == self.content


class CheckedConnection(Connection):
    """A connection on which a response with an unexpected body fails.

    The check is not on the hot path, because bytes equal to the last good response need no check.
    Pieces of a body are compared without a copy; they are kept only while the expected body is
    unknown.
    """

    def __init__(self, clients: Clients, expected: ExpectedBody) -> None:
        super().__init__(clients)
        self._expected = expected
        self._start_body()

    def _start_body(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self._is_equal = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._start_body()
        super().connection_made(transport)

    def on_body(self, piece: bytes) -> None:
        """Compare a piece of a response's body (httptools calls this)."""
        content = self._expected.content
        if content is None or self._pieces:
            self._pieces.append(piece)
        else:
            self._is_equal = self._is_equal and content.startswith(piece, self._length)
            self._length += len(piece)

    def _checked(self, status: int) -> int:
        content = self._expected.content
        if content is None or self._pieces:
            is_equal = self._expected.is_equal(b"".join(self._pieces))
        else:
            is_equal = self._is_equal and self._length == len(content)
        self._start_body()
        return WRONG_BODY if status < 400 and not is_equal else status


# The clients of a process
# A load stops if its requests have failed consecutively for FAILING_S, and at least this number of
# them: the server is regarded as gone.
CONSECUTIVE_FAILURES = 1000
FAILURES_PER_USER = 4  # one failure per user may only mean that the server was full for a moment
FAILING_S = 2.0


class Clients:
    """The base class of the closed and the open loop, which implement `start` and `next`."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, load: Load) -> None:
        self.load = load
        self.samples = Samples()
        self.target: Target = target(load)
        self.connections: list[Connection] = []
        sha256 = load.response_sha256
        self._expected = None if sha256 is None else ExpectedBody(sha256)
        self.stopped = False
        self._stop = asyncio.Event()
        self._failures_in_sequence = 0
        self._max_failures = max(CONSECUTIVE_FAILURES, FAILURES_PER_USER * load.users)
        self._failing_since = 0.0
        self._completed = -1  # completed requests when the last request failed
        resource_limits.raise_open_files_limit(load.users)

    def start(self, now: float) -> None:
        """Send the first requests, in the running event loop; the load starts at `now`."""
        raise NotImplementedError

    def next(self, connection: Connection, now: float) -> None:
        """Send the next request on a connection whose request has ended, or none."""
        raise NotImplementedError

    def new_connection(self) -> Connection:
        """Return a connection, which checks bodies if the load has an expected body."""
        if self._expected is None:
            return Connection(self)
        return CheckedConnection(self, self._expected)

    def stop_sending(self) -> None:
        """Send no further requests; those in flight may have a response."""
        raise NotImplementedError

    def fail(self, kind: str, started: float, now: float) -> None:
        """Record a failed request; stop the load after too many consecutive failures."""
        samples = self.samples
        samples.failed.append((kind, started, now))
        if len(samples.ended) != self._completed:
            self._completed, self._failures_in_sequence = len(samples.ended), 0
            self._failing_since = now
        self._failures_in_sequence += 1
        failures = self._failures_in_sequence
        if failures >= self._max_failures and now - self._failing_since >= FAILING_S:
            self.stop(f"builtin stopped after {failures} consecutive failures ({kind})")

    def stop(self, problem: str | None = None) -> None:
        """Stop the load and record the requests in flight; only the first call has an effect."""
        if self.stopped:
            return
        self.stopped = True
        self._stop.set()
        samples = self.samples
        samples.over, samples.problem = monotonic(), problem
        samples.unfinished = [c.started for c in self.connections if c.started is not None]
        samples.requests = sum(c.requests for c in self.connections)
        for connection in self.connections:
            connection.close()

    async def wait(self, seconds: float) -> None:
        """Wait until the load stops, but not longer than `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def is_warm(self) -> bool:
        """Whether every connection has had a response."""
        return all(c.responses for c in self.connections)

    def is_settled(self, at: float) -> bool:
        """Whether every request that was sent at `at` or before has ended."""
        return all(c.started is None or c.sent is None or c.sent > at for c in self.connections)

    def sweep(self, now: float) -> None:
        """Fail the requests that exceeded their timeout."""
        late = now - self.load.timeout
        for connection in self.connections:
            if connection.started is not None and connection.started < late:
                connection.time_out()


# The target: its address and the bytes of a request


@dataclass(frozen=True)
class Target:
    """The address, the TLS settings and the bytes of a request."""

    host: str
    port: int
    secure: ssl.SSLContext | None
    request: bytes


def target(load: Load) -> Target:
    """Build the target of a load once, so that each request is a single write."""
    parts = urlsplit(load.url)
    secure = _context() if parts.scheme == "https" else None
    return Target(
        parts.hostname or "",
        parts.port or (443 if secure else 80),
        secure,
        _request(load, parts.netloc, request_target(parts)),
    )


def _request(load: Load, host: str, target: str) -> bytes:
    connection = "keep-alive" if load.keep_alive else "close"
    message = load.message
    own = [f"Host: {host}", f"Connection: {connection}"]
    defaults = {"User-Agent": "builtin", "Accept": "*/*"}
    own += [f"{name}: {value}" for name, value in defaults.items() if not message.header(name)]
    if message.content_type is not None:
        own.append(f"Content-Type: {message.content_type}")
    body = b"" if message.body is None else message.body.encode()
    if message.body is not None:
        own.append(f"Content-Length: {len(body)}")
    head = [f"{message.method} {target} HTTP/1.1", *own, *message.lines, "", ""]
    return "\r\n".join(head).encode() + body


def _context() -> ssl.SSLContext:
    """Return TLS settings that trust the system's CAs and that of UPSTREAM_CA."""
    context = ssl.create_default_context()
    if authority := os.environ.get("UPSTREAM_CA"):
        context.load_verify_locations(authority)
    return context
