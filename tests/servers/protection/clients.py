"""Clients with limited patience, on one event loop: hundreds cost little CPU."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Storm:
    """The responses of a storm: the times of good ones, and the number of refusals."""

    good: list[float] = field(default_factory=list)
    refused: int = 0
    impatient: int = 0
    began: float = 0.0

    def rate(self, start: float, end: float) -> float:
        """Return the good responses per second from `start` to `end` s after the storm began."""
        times = [t - self.began for t in self.good]
        return sum(start <= t < end for t in times) / (end - start)


def rage(port: int, clients: int, seconds: float, patience: float) -> Storm:
    """Send requests from `clients` clients, which disconnect when their patience ends."""
    return asyncio.run(_rage(port, clients, seconds, patience))


async def _rage(port: int, clients: int, seconds: float, patience: float) -> Storm:
    storm = Storm(began=time.monotonic())
    each = [asyncio.create_task(_client(port, storm, patience)) for _ in range(clients)]
    await asyncio.sleep(seconds)
    for client in each:
        client.cancel()
    await asyncio.gather(*each, return_exceptions=True)
    return storm


async def _client(port: int, storm: Storm, patience: float) -> None:
    while True:
        try:
            async with asyncio.timeout(patience):
                status = await _get(port)
        except TimeoutError:
            storm.impatient += 1
            continue
        except OSError:
            status = 0
        if status == 200:
            storm.good.append(time.monotonic())
        else:
            storm.refused += status == 503
            await asyncio.sleep(random.uniform(0.5, 1.5))  # about what Retry-After says


async def _get(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])
    except asyncio.IncompleteReadError:
        return 0
    finally:
        writer.close()
