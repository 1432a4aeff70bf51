"""The embedded server: Tornado, in the supervisor's own process."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator, Sequence

import tornado.web
from tornado.httpserver import HTTPServer

from offload.upstream.backend import Serving
from offload.upstream.certificates import Certificate

BACKLOG = 1024  # connections that wait to be accepted, here and in nginx


@contextlib.contextmanager
def serving(
    app: tornado.web.Application, wanted: Sequence[int], certificate: Certificate
) -> Iterator[Serving]:
    """Serve an application by HTTP and HTTPS, on the two ports that are wanted if free."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate.chain, certificate.key)
    with _listening(app, wanted[0], None) as http, _listening(app, wanted[1], tls) as https:
        yield Serving("embedded", http, https)


@contextlib.contextmanager
def behind(app: tornado.web.Application) -> Iterator[int]:
    """Serve an application by HTTP for nginx to ask, on any free port."""
    with _listening(app, 0, None) as port:
        yield port


def free_ports(wanted: Sequence[int]) -> list[int]:
    """Choose for each port that is wanted that one or, when it is busy, one that is free."""
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(_bound(port)).getsockname()[1] for port in wanted]


@contextlib.contextmanager
def _listening(
    app: tornado.web.Application, wanted: int, tls: ssl.SSLContext | None
) -> Iterator[int]:
    listener = _bound(wanted)
    server = HTTPServer(app, ssl_options=tls)
    server.add_sockets([listener])
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop()


def _bound(wanted: int) -> socket.socket:
    try:
        listener = socket.create_server(("127.0.0.1", wanted), backlog=BACKLOG)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setblocking(False)
    return listener
