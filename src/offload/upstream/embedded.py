"""The embedded server: Tornado, in the supervisor's own process."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator, Sequence

import tornado.web
from tornado.httpserver import HTTPServer

from offload.upstream.backend import Backend
from offload.upstream.certificates import Certificate

BACKLOG = 1024  # of the listen queues, here and in nginx


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
