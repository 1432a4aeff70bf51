"""R7: requests that are too large: a body of 100 MiB, a header of 70 kB, 1,000 headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lab.faults.clients import raw_requests
from lab.faults.machine.peak_memory import PeakMemory
from lab.faults.row import Outcome, Row, Size, judge_server
from lab.faults.servers.faulty_server import faulty

MOST_GROWTH_MIB = 5.0
ROUNDS = 4
WARMUP = 40  # good requests, so that each process has responded before its memory is read
PIECE = b"x" * (1 << 16)
PIECES = 1600  # 100 MiB
START = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"


def _body() -> Iterator[bytes]:
    yield START + b"Content-Length: %d\r\n\r\n" % (PIECES * len(PIECE))
    for _ in range(PIECES):
        yield PIECE


def _chunks() -> Iterator[bytes]:
    """Yield the same body without a length: the server must count its bytes."""
    yield START + b"Transfer-Encoding: chunked\r\n\r\n"
    for _ in range(PIECES):
        yield b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
    yield b"0\r\n\r\n"


def _header() -> Iterator[bytes]:
    yield GET + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n"


def _names() -> Iterator[bytes]:
    yield GET + b"".join(b"X-%d: y\r\n" % number for number in range(1000)) + b"\r\n"


def _values() -> Iterator[bytes]:
    yield GET + b"X: y\r\n" * 1000 + b"\r\n"


REQUESTS: dict[str, Callable[[], Iterator[bytes]]] = {
    "100 MiB": _body,
    "100 MiB in chunks": _chunks,
    "70 kB header": _header,
    "1,000 headers": _names,
    "1,000 times one header": _values,
}


def inject(server: str, size: Size) -> Outcome:
    """Send each request several times, a good one after each, and read the peak of the memory."""
    refused: dict[str, set[int | None]] = {name: set() for name in REQUESTS}
    good = [GET + b"\r\n"]
    with faulty(server, "ok") as target:
        served = {raw_requests.send(target.port, good) for _ in range(WARMUP)}
        memory = PeakMemory([target.pid, *(each.pid for each in target.descendants())])
        for _ in range(ROUNDS):
            for name, pieces in REQUESTS.items():
                refused[name].add(raw_requests.send(target.port, pieces()))
                served.add(raw_requests.send(target.port, good))
        grown = memory.growth_mib()
        alive = target.is_alive()
    found = [
        f"{name}: {'/'.join(map(raw_requests.describe, sorted(statuses, key=str)))}"
        for name, statuses in refused.items()
    ]
    found.append("a process ended" if grown is None else f"memory {grown:+.1f} MiB")
    found += [] if served == {200} else ["a good request was not served"]
    is_refused = all(_is_refusal(each) for statuses in refused.values() for each in statuses)
    is_small = grown is not None and grown <= MOST_GROWTH_MIB
    return judge_server(is_refused and is_small and served == {200}, found, alive)


def _is_refusal(status: int | None) -> bool:
    """Whether a request was refused, by a response or by closing its connection."""
    return status is not None and (status in (0, 501) or 400 <= status < 500)


ROW = Row(
    "R7",
    "a body of 100 MiB, a header of 70 kB, 1,000 headers",
    "they are refused, others are served, at most 5 MiB more memory at the peak of a process",
    inject,
    ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork"),
    others={
        "plain_threads": "Tornado accepts 100 MiB and any number of headers",
        **dict.fromkeys(
            ("gunicorn_sync", "uvicorn_workers", "granian_asgi"),
            "it leaves the limit of a body to its application",
        ),
    },
)
