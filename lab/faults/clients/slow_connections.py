"""Connections that send or receive slowly: by slowhttptest, or by this program itself.

Usage: python -m lab.faults.clients.slow_connections KIND PORT COUNT
"""

from __future__ import annotations

import os
import resource
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab import environment
from offload import prctl

HEADERS, BODY, READERS = KINDS = ("headers", "body", "readers")
PER_SECOND = 200  # new connections
INTERVAL_S = 2.0  # between two pieces of a connection
POLL_S = 0.05
LONGEST_S = 60.0  # until the program ends by itself
LOWEST = 19  # nice value: the server and its good clients have priority
MOST_CPU_S, MOST_BYTES = 30, 1 << 29  # CPU time and address space of the program
TOOL, OPTION = "slowhttptest", {HEADERS: "-H", BODY: "-B"}
FIRST = {
    HEADERS: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    BODY: b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8192\r\n\r\n",
    READERS: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}
PIECE = {HEADERS: b"X: y\r\n", BODY: b"x"}
SEGMENT, BUFFER, READ = 536, 2048, 32  # bytes: small ones, so that the response stays in the server


@contextmanager
def slow(kind: str, port: int, count: int) -> Iterator[int]:
    """Keep `count` slow connections open in another process during the block; yield its pid.

    The process has a low priority, and its CPU time and memory are limited. slowhttptest continues
    all its connections at the same moment, every INTERVAL_S after its start.
    """
    process = subprocess.Popen(
        _command(kind, port, count),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _limit(process.pid)
        yield process.pid
    finally:
        process.kill()
        process.wait(10)


def _limit(pid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, LOWEST)
    if sys.platform == "linux":
        resource.prlimit(pid, resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
        resource.prlimit(pid, resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def tool(kind: str) -> str | None:
    """Return the path of slowhttptest, if it is installed and can send this kind.

    Its slow readers do not limit the segments: the kernel would take their whole responses.
    """
    return shutil.which(TOOL) if kind in OPTION else None


def _command(kind: str, port: int, count: int) -> list[str]:
    if (path := tool(kind)) is None:
        module = "lab.faults.clients.slow_connections"
        return [sys.executable, "-P", "-m", module, kind, str(port), str(count)]
    return [
        *(path, OPTION[kind], "-u", f"http://127.0.0.1:{port}/", "-c", str(count)),
        *("-r", str(PER_SECOND), "-i", f"{INTERVAL_S:.0f}", "-l", f"{LONGEST_S:.0f}"),
    ]


def main(kind: str, port: int, count: int) -> None:
    """Open the connections, and continue each every INTERVAL_S, until LONGEST_S or all closed."""
    until = time.monotonic() + LONGEST_S
    due: dict[socket.socket, float] = {}
    opened = 0
    began = time.monotonic()
    with selectors.DefaultSelector() as ended:
        while time.monotonic() < until and (opened < count or due):
            while opened < min(count, PER_SECOND * (time.monotonic() - began) + 1):
                opened += 1
                with suppress(OSError):
                    client = _open(kind, port)
                    due[client] = time.monotonic() + INTERVAL_S
                    if kind != READERS:
                        ended.register(client, selectors.EVENT_READ)
            for key, _ in ended.select(
                1 / PER_SECOND if opened < count else POLL_S
            ):  # a response, or the server has closed
                _close(key.fileobj, due, ended)  # type: ignore[arg-type]
            now = time.monotonic()
            for client in [each for each, at in due.items() if at <= now]:
                due[client] = now + INTERVAL_S
                if not _continue(kind, client):
                    _close(client, due, ended)


def _open(kind: str, port: int) -> socket.socket:
    client = socket.socket()
    if kind == READERS:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
    client.settimeout(INTERVAL_S)
    try:
        client.connect(("127.0.0.1", port))
        client.sendall(FIRST[kind])
    except OSError:
        client.close()
        raise
    client.setblocking(False)
    return client


def _continue(kind: str, client: socket.socket) -> bool:
    """Send or receive one piece; return False if the connection is closed."""
    try:
        if kind == READERS:
            return bool(client.recv(READ))
        client.send(PIECE[kind])
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def _close(
    client: socket.socket, due: dict[socket.socket, float], ended: selectors.BaseSelector
) -> None:
    with suppress(KeyError):  # a reader is not registered
        ended.unregister(client)
    due.pop(client, None)
    client.close()


if __name__ == "__main__":
    prctl.end_with(os.getppid())
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
