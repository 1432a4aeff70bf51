"""The embedded server: Tornado in the upstream's process; nginx.py shares its ports and checks."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tornado.web
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from tornado.httpserver import HTTPServer

from offload.upstream.certificates import Certificate

BACKLOG = 1024  # of the listen queues, here and in nginx
RESPONSE_DEADLINE = 4.0  # seconds from the start until both ports have responded
POLL = 0.02  # seconds between two requests


@dataclass(frozen=True)
class Backend:
    """A server of the pages; `ended` completes when its separate process ends."""

    kind: str
    http: int
    https: int
    ended: asyncio.Future[int] | None = None

    @property
    def urls(self) -> tuple[str, str]:
        """The HTTP and the HTTPS address, without a path."""
        return f"http://127.0.0.1:{self.http}", f"https://127.0.0.1:{self.https}"


async def is_ready(serving: Backend, ca: Path) -> bool:
    """Wait until both ports have responded; False if the server ended, or after the deadline."""
    until = time.monotonic() + RESPONSE_DEADLINE
    client = AsyncHTTPClient(force_instance=True)
    try:
        for url in serving.urls:
            while not await _responds(client, f"{url}/status", ca):
                if time.monotonic() > until or (serving.ended and serving.ended.done()):
                    return False
                await asyncio.sleep(POLL)
    finally:
        client.close()
    return True


async def _responds(client: AsyncHTTPClient, url: str, ca: Path) -> bool:
    try:
        await client.fetch(url, ca_certs=str(ca), request_timeout=RESPONSE_DEADLINE)
    except (OSError, HTTPClientError):  # refused, reset, or another server's certificate
        return False
    return True


@contextlib.contextmanager
def serving(
    app: tornado.web.Application, ports: Sequence[int], certificate: Certificate
) -> Iterator[Backend]:
    """Serve an application over HTTP and HTTPS, on the two `ports` where they are free."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate.chain, certificate.key)
    with _listening(app, ports[0], None) as http, _listening(app, ports[1], tls) as https:
        yield Backend("embedded", http, https)


@contextlib.contextmanager
def behind(app: tornado.web.Application) -> Iterator[int]:
    """Serve an application over HTTP behind nginx, on any free port."""
    with _listening(app, 0, None) as port:
        yield port


def free_ports(ports: Sequence[int]) -> list[int]:
    """Return each of the `ports`, or a free port in place of one that is busy."""
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(_bind(port)).getsockname()[1] for port in ports]


@contextlib.contextmanager
def _listening(
    app: tornado.web.Application, port: int, tls: ssl.SSLContext | None
) -> Iterator[int]:
    listener = _bind(port)
    server = HTTPServer(app, ssl_options=tls)
    server.add_sockets([listener])
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop()


def _bind(port: int) -> socket.socket:
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setblocking(False)
    return listener
