"""Every driver by name: a new file is tested on a real server as soon as it exists."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from offload import loads
from offload.loads import Load, LoadResult
from offload.registry import catalog
from tests.installed import lacks

pytestmark = pytest.mark.server
OTHERS = [
    pytest.param(
        name,
        marks=(
            pytest.mark.slow,
            pytest.mark.skipif(loads.missing(name) is not None, reason=lacks(name)),
        ),
    )
    for name in catalog.drivers()
    if name != "builtin"
]
every = pytest.mark.parametrize("name", ["builtin", *OTHERS])


class _Handler(BaseHTTPRequestHandler):
    """Responds to / and to no other path; keeps or closes a connection as the client requests."""

    protocol_version = "HTTP/1.1"
    served: Counter[str]

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Length", "2")
        if "Connection" in self.headers:  # HTTP/1.0 clients wait for it
            self.send_header("Connection", self.headers["Connection"])
        self.end_headers()
        self.wfile.write(b"ok")
        self.served[self.path] += 1

    def log_message(self, *args: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 100

    def handle_error(self, *_: object) -> None:
        """Ignore connections that a load tool closes at its end."""


@pytest.fixture
def served() -> Iterator[tuple[str, Counter[str]]]:
    """The address of a server, and the number of responses for each path."""
    counter: Counter[str] = Counter()
    handler = type("Handler", (_Handler,), {"served": counter})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", counter
        server.shutdown()
        thread.join(10)


def load(name: str, url: str) -> LoadResult:
    """Send the requests of two users for a second."""
    lacks = getattr(importlib.import_module(f"offload.loads.{name}"), "LACKS", {})
    keep_alive = "keep_alive" not in lacks
    return loads.run(Load(url, users=2, seconds=1.0, keep_alive=keep_alive), name).result


@every
def test_a_driver_counts_what_the_server_counts(
    name: str, served: tuple[str, Counter[str]]
) -> None:
    address, counter = served
    result = load(name, f"{address}/")
    figures = result.figures
    assert result.problem is None
    assert figures.completed is not None
    assert counter["/"] / 3 < figures.completed <= counter["/"]
    assert not any(count for kind, count in figures.failed.items() if kind != "unfinished")
    assert figures.elapsed_s is not None
    assert 1 / 3 < figures.elapsed_s < 3
    assert figures.rate is not None
    assert 1 / 3 < figures.rate * figures.elapsed_s / figures.completed < 3


@every
def test_a_driver_counts_failed_requests(name: str, served: tuple[str, Counter[str]]) -> None:
    address, counter = served
    result = load(name, f"{address}/missing")
    assert counter["/missing"] > 0
    assert not result.figures.completed
    assert result.problem is not None or any(result.figures.failed.values())
