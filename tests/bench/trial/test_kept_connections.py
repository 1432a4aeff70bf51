"""Stalls and endless bodies are detected, with real servers that stall or do not."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from offload import loads
from offload.engine import workload
from offload.engine.builder import trial_flags
from offload.engine.record import Record
from offload.engine.workload import send_first_requests
from offload.errors import StartError
from offload.loads import Load
from offload.suites import Case
from tests.records import changed, new_record

BODY = b"x" * 100
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"


class Handler(BaseHTTPRequestHandler):
    """Answers in one write, and keeps the connection."""

    protocol_version = "HTTP/1.1"
    writes: tuple[bytes, ...] = (HEAD + BODY,)
    wbufsize = 0

    def do_GET(self) -> None:
        for data in self.writes:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class TwoWrites(Handler):
    """Writes head and body apart."""

    writes = (HEAD, BODY)


class NoDelay(TwoWrites):
    """Does so too, with TCP_NODELAY."""

    disable_nagle_algorithm = True


class Closing(Handler):
    """Keeps no connection."""

    protocol_version = "HTTP/1.0"
    writes = (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n" + BODY,)


class Endless(Handler):
    """Sends a body that never ends, in pieces."""

    piece, pause_s = b"x", 0.05

    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(OSError):  # the client has left
            while True:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(self.piece), self.piece))
                time.sleep(self.pause_s)
        self.close_connection = True


class Flood(Endless):
    """Sends large pieces without a pause."""

    piece, pause_s = b"x" * 1000, 0.0


class Echo(Handler):
    """Answers with the path of the request."""

    def do_GET(self) -> None:
        path = self.path.encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path))


class Short(Handler):
    """Ends in the middle of its body."""

    writes = (HEAD + BODY[:50],)

    def do_GET(self) -> None:
        super().do_GET()
        self.close_connection = True


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def probed(handler: type[Handler]) -> Record:
    with serving(handler) as url:
        alone_s = send_first_requests(url).alone_s
        keep_alive_s = workload.keep_alive_s(url, alone_s)
    case = Case("threads", "noop_sync", keep_alive=True)
    return changed(new_record(case, "run", None), alone_s=alone_s, keep_alive_s=keep_alive_s)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an ACK is delayed otherwise")
def test_head_and_body_in_two_writes_stall() -> None:
    record = probed(TwoWrites)
    assert record.baseline.keep_alive_s is not None and record.baseline.keep_alive_s > 0.03
    [flag] = trial_flags(record)
    assert flag.kind == "stall" and "TCP_NODELAY" in flag.remedy


@pytest.mark.parametrize("handler", [Handler, NoDelay])
def test_one_write_or_nodelay_does_not_stall(handler: type[Handler]) -> None:
    record = probed(handler)
    assert record.baseline.keep_alive_s is not None
    assert trial_flags(record) == ()


def test_the_stall_is_unknown_for_a_server_that_closes_connections() -> None:
    assert probed(Closing).baseline.keep_alive_s is None


def test_a_slow_request_is_not_measured() -> None:
    assert workload.keep_alive_s("http://127.0.0.1:9/", alone_s=1.0) is None


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (Endless, "sent .* within 1 s and did not end"),
        (Flood, "sent more than 0 MiB"),
        (Short, "did not answer: IncompleteRead"),
    ],
)
def test_a_body_that_does_not_end_is_an_error(
    handler: type[Handler], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(workload, "LARGEST_BODY", 10_000)
    with serving(handler) as url, pytest.raises(StartError, match=message):
        workload.get(url)


@pytest.mark.parametrize("path", ["/", "/quote?text=why?", "/quote?text=a?b"])
def test_the_first_requests_have_the_same_path_as_the_load(path: str) -> None:
    with serving(Echo) as url:
        first = send_first_requests(url.rstrip("/") + path)
        load = Load(url.rstrip("/") + path, 1, None, requests=2, response_sha256=first.body_sha256)
        loaded = loads.run(load, "builtin").result.figures
    assert first.body == path.encode()
    assert (loaded.completed, any(loaded.failed.values())) == (2, False)
