"""Requests that contain a second one: nginx forwards some, and a server that is misled is found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from offload.bench.faults import lab
from offload.bench.faults.lab import ROWS
from offload.bench.faults.row import SMALL, NotAvailable
from offload.bench.faults.rows import smuggling
from offload.bench.faults.servers import reverse_proxy
from offload.upstream import nginx

pytestmark = pytest.mark.server
needs_nginx = pytest.mark.skipif(
    nginx.find() is None, reason="nginx is not installed: make test-all"
)


@contextmanager
def counting(closes: bool) -> Iterator[tuple[int, list[str]]]:
    """Run http.server with HTTP/1.1; yield its port and the targets of the GETs that it served."""
    targets: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            targets.append(self.path)
            self._respond(200)

        def do_POST(self) -> None:
            self._respond(405)

        do_HEAD = do_OPTIONS = do_DELETE = do_POST

        def _respond(self, status: int) -> None:
            if closes:
                self.close_connection = True
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1], targets
        finally:
            server.shutdown()
            thread.join(20)


@needs_nginx
def test_a_server_that_ignores_bodies_is_found() -> None:
    with (
        counting(closes=False) as (port, targets),
        reverse_proxy.in_front_of(port) as proxy,
    ):
        found = smuggling.smuggle(proxy, lambda: len(targets), 40)
    # nginx may close the connection before the server has read the second request from it.
    assert not found.is_kept, found.figure
    assert any("CL.0" in name or "CL.CL" in name for name in found.suspects), found.suspects


@needs_nginx
def test_a_server_that_closes_each_connection_is_not_suspected() -> None:
    with (
        counting(closes=True) as (port, targets),
        reverse_proxy.in_front_of(port) as proxy,
    ):
        found = smuggling.smuggle(proxy, lambda: len(targets), 40)
    assert found.forwarded > found.attempts, "the requests of users at least"
    assert found.is_kept, found.figure
    assert found.suspects == []


@needs_nginx
@pytest.mark.parametrize(
    "server",
    ["threads", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sync", "prefork"))],
)
def test_no_second_request_reaches_a_server(server: str) -> None:
    found = lab.run(ROWS["R8-nginx"], server, SMALL)
    assert found.is_kept is True, found.figure


def test_the_row_is_not_available_without_nginx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nginx, "find", lambda: None)
    with pytest.raises(NotAvailable, match="nginx is not installed"), reverse_proxy.in_front_of(1):
        pass
    found = lab.run(ROWS["R8-nginx"], "sync", SMALL)
    assert (found.is_kept, found.is_broken) == (None, False)
    assert found.figure == "nginx is not installed: make suites installs it"
