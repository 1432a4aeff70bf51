"""The clients of a server in a soak: most behave well; others leave, stall or send bad requests.

Each client function returns what the server did: the status of its response, or `closed`. Clients
that leave before a response return nothing.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
REQUEST = HEAD + b"Connection: close\r\n\r\n"
NOT_FOUND = REQUEST.replace(b"/ ", b"/nothing ", 1)
MALFORMED = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # the start of a TLS handshake
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    HEAD + b"no colon\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n",
)
OVERSIZED = (
    HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 104857600\r\n\r\n" + bytes(65_536),
    HEAD + b"".join(b"X-%d: x\r\n" % number for number in range(2000)) + b"\r\n",
)
CLOSED = "closed"
CLIENTS = 3  # of each server
PAUSE_S = 0.08  # mean pause of a client between two requests
PIECES, PIECE_S = 5, 0.05  # of a slow request, and the time between two
LONGEST_S = 15.0  # timeout of one request: longer than the deadlines of the servers, 10 s

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Client = Callable[[Connection, random.Random], Awaitable[str | None]]


@dataclass
class Counts:
    """Responses to well-behaved clients by status, and other clients by kind."""

    statuses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


@contextmanager
def running(ports: Sequence[int], seed: str, is_serial: Sequence[bool]) -> Iterator[list[Counts]]:
    """Send requests to all ports during the block; yield the counts of each port.

    The servers of `is_serial` serve one connection at a time: no client stalls there, because all
    others would wait.
    """
    counts = [Counts() for _ in ports]
    loop = asyncio.new_event_loop()
    stopped = asyncio.Event()

    async def each() -> None:
        servers = enumerate(zip(ports, counts, is_serial, strict=True))
        clients = [
            loop.create_task(_client(f"{seed} {server} {number}", *of_server))
            for server, of_server in servers
            for number in range(CLIENTS)
        ]
        stopping = loop.create_task(stopped.wait())
        done, _ = await asyncio.wait([*clients, stopping], return_when=asyncio.FIRST_COMPLETED)
        for client in [*clients, stopping]:
            client.cancel()
        await asyncio.wait([*clients, stopping])
        for client in done - {stopping}:
            client.result()  # a client ends by an error only

    with ThreadPoolExecutor(1, "clients") as threads:
        ended = threads.submit(loop.run_until_complete, each())
        try:
            yield counts
        finally:
            loop.call_soon_threadsafe(stopped.set)
            ended.exception(2 * LONGEST_S)
            loop.close()
        ended.result()


async def _client(seed: str, port: int, counts: Counts, is_serial: bool) -> None:
    generator = random.Random(seed)  # noqa: S311 - repeatable
    kinds = [name for name in KINDS if not (is_serial and name == "stalling")]
    weights = [KINDS[name][0] for name in kinds]
    while True:
        [name] = generator.choices(kinds, weights)
        found = await _act(port, KINDS[name][1], generator)
        if name in WELL_BEHAVED:
            counts.statuses[found or CLOSED] += 1
        else:
            counts.faults[name] += 1
        await asyncio.sleep(generator.expovariate(1 / PAUSE_S))


async def _act(port: int, client: Client, generator: random.Random) -> str | None:
    writer = None
    try:
        async with asyncio.timeout(LONGEST_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            return await client((reader, writer), generator)
    except TimeoutError:
        return "timeout"
    except OSError:
        return CLOSED
    finally:
        if writer is not None:
            writer.close()


async def _status(reader: asyncio.StreamReader) -> str:
    """Return the status of a response that is read to its end; `closed` if there is none."""
    line = await reader.readline()
    with suppress(ConnectionError):
        while await reader.read(65_536):
            pass
    words = line.split()
    return words[1].decode() if len(words) > 1 else CLOSED


async def _send(connection: Connection, request: bytes) -> str:
    reader, writer = connection
    writer.write(request)
    return await _status(reader)


async def _request(connection: Connection, generator: random.Random) -> str:
    return await _send(connection, REQUEST)


async def _request_unknown_path(connection: Connection, generator: random.Random) -> str:
    return await _send(connection, NOT_FOUND)


async def _request_slowly(connection: Connection, generator: random.Random) -> str:
    reader, writer = connection
    size = len(REQUEST) // PIECES + 1
    for start in range(0, len(REQUEST), size):
        writer.write(REQUEST[start : start + size])
        await asyncio.sleep(PIECE_S)
    return await _status(reader)


async def _leave(connection: Connection, generator: random.Random) -> None:
    """Leave after the request or a part of it, by closing or by resetting the connection."""
    _, writer = connection
    writer.write(REQUEST[: generator.choice((len(REQUEST), len(REQUEST) // 2))])
    await asyncio.sleep(generator.uniform(0.0, 0.01))
    if generator.random() < 0.5:
        linger = struct.pack("ii", 1, 0)  # close() sends a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


async def _stall(connection: Connection, generator: random.Random) -> None:
    """Send half of a request, and wait until the server closes the connection."""
    reader, writer = connection
    writer.write(REQUEST[: len(REQUEST) // 2])
    await reader.read()


async def _send_malformed(connection: Connection, generator: random.Random) -> str:
    return await _send_and_shut(connection, generator.choice(MALFORMED))


async def _send_oversized(connection: Connection, generator: random.Random) -> str:
    return await _send_and_shut(connection, generator.choice(OVERSIZED))


async def _send_and_shut(connection: Connection, request: bytes) -> str:
    """Send a request, complete or not, and end the stream: the server need not wait for more."""
    reader, writer = connection
    writer.write(request)
    with suppress(OSError):
        writer.write_eof()
    return await _status(reader)


KINDS: dict[str, tuple[float, Client]] = {  # with the weight of each, about its share in percent
    "well-behaved": (80.0, _request),
    "unknown path": (4.0, _request_unknown_path),
    "slow": (2.0, _request_slowly),
    "disconnected": (6.0, _leave),
    "malformed": (4.0, _send_malformed),
    "oversized": (2.0, _send_oversized),
    "stalling": (0.3, _stall),
}
WELL_BEHAVED = ("well-behaved", "unknown path", "slow")
