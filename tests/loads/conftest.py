"""A raw server whose path selects a fault, and which counts connections and requests."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import statistics
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict
from tempfile import NamedTemporaryFile
from typing import ClassVar

import pytest

from offload.loads import Load, LoadResult, builtin
from offload.loads._run import check

SLOTS = 4
SLOT_S = 0.14
RESET = struct.pack("ii", 1, 0)  # linger 0: close() sends RST
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


class Server:
    """Serves a different response or fault for each path, on a free port, in a separate thread."""

    answers: ClassVar[dict[str, bytes]] = {
        "/": LENGTH + b"hello",
        "/wrong": LENGTH + b"error",
        "/404": b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello",
        "/500": b"HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nhello",
        "/204": b"HTTP/1.1 204 No Content\r\n\r\n",
        "/302": b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        "/continue": b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH + b"hello",
        "/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        "/http10": b"HTTP/1.0 200 OK\r\n\r\nhello",
        "/says-close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        "/empty": b"",
        "/garbage": b"\x00\xff\x16\x03 this is not HTTP at all\r\n\r\n",
        "/partial-head": b"HTTP/1.1 200 OK\r\nContent-Le",
        "/mid-body": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello",
        "/extra": LENGTH + b"hello and more",
        "/two-answers": LENGTH + b"hello" + LENGTH + b"hello",
    }
    closes = (
        "/slow-head",
        "/http10",
        "/says-close",
        "/empty",
        "/garbage",
        "/partial-head",
        "/mid-body",
    )

    def __init__(self, ssl: object = None) -> None:
        self.accepts: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.slots_s: list[float] = []
        self._ssl = ssl
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def url(self, path: str = "/") -> str:
        """Return the URL of a path."""
        return f"http{'s' if self._ssl else ''}://127.0.0.1:{self.port}{path}"

    def pool_rate(self, since: int) -> float:
        """Return the highest possible rate of /pool after its first `since` responses."""
        return SLOTS / statistics.mean(self.slots_s[since:])

    @property
    def is_busy(self) -> bool:
        """Whether all slots of /pool are in use."""
        return self._slots.locked()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._slots = asyncio.Semaphore(SLOTS)
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        server = await asyncio.start_server(
            self._connected, "127.0.0.1", 0, backlog=2048, ssl=self._ssl
        )
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        server.close()
        async with asyncio.timeout(10):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                for writer, handler in self._open.items():
                    writer.transport.abort()
                    handler.cancel()
                await asyncio.wait(others, timeout=0.1)  # also asyncio's accept tasks
        await asyncio.sleep(0.01)  # until aborted connections are closed

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._open[writer] = handler
        seen = False
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                self.accepts[path] += not seen
                self.requests[path] += 1
                self.heads.append(head)
                seen = True
                if length := re.search(rb"content-length: (\d+)", head, re.IGNORECASE):
                    self.bodies.append(await reader.readexactly(int(length[1])))
                close = await self._answer(path, writer) or b"onnection: close" in head
                if close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            del self._open[writer]
            writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> bool:
        """Respond to one request; return whether to close the connection."""
        if path == "/hang" or (path == "/first" and self.requests[path] > 1):
            await self._stopped.wait()
        elif path == "/reset":
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            return True
        elif path == "/slow-head":
            for piece in (b"HTTP/1.1 200 OK\r\nServer: x\r\n", b"\r\nhel", b"lo"):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.02)
        elif path == "/alternate":
            writer.write(self.answers["/" if self.requests[path] % 2 else "/500"])
        elif path == "/sometimes-wrong":
            writer.write(self.answers["/" if self.requests[path] % 4 else "/wrong"])
        elif path == "/in-pieces":
            for piece in (LENGTH, b"he", b"llo" if self.requests[path] % 4 else b"art"):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.005)
        elif path == "/first":
            writer.write(self.answers["/"])
        elif path == "/pool":
            async with self._slots:
                began = time.monotonic()
                await asyncio.sleep(SLOT_S)
                self.slots_s.append(time.monotonic() - began)
            writer.write(self.answers["/"])
        else:
            writer.write(self.answers[path])
        await writer.drain()
        return path in self.closes


def run_here(load: Load) -> LoadResult:
    """Run the built-in load tool in this process, which saves its start-up time of 0.2 s."""
    check(load, "builtin")
    said = io.StringIO()
    with NamedTemporaryFile("w") as file, redirect_stdout(said):
        json.dump(asdict(load), file)
        file.flush()
        builtin.main([file.name])
    return builtin.parse(said.getvalue(), "", load)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The raw server. The tests of a file share it: compare its counters before and after."""
    with Server() as server:
        yield server
