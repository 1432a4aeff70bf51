"""The stall of a kept connection: a response in two writes waits about 40 ms for a delayed ACK.

A server without TCP_NODELAY delays its second write until the first one is acknowledged, and the
client delays that acknowledgement, except on a new connection.
"""

from __future__ import annotations

import http.client
import statistics
import time

from offload.bench.trial.warmup import GET, answer, connected
from offload.errors import StartError
from offload.suites import Request

TIMES = 6  # requests; the first one is not delayed, as on a new connection
SLOW = 0.25  # s: for a longer request a stall is irrelevant


def kept_s(url: str, alone_s: float, request: Request = GET) -> float | None:
    """Return the median response time on one kept connection, in s, without its first request.

    None if the server closes the connection, or if requests are slow: then none is sent.
    """
    if alone_s > SLOW:
        return None
    taken: list[float] = []
    connection = connected(url)
    try:
        while len(taken) < TIMES:
            start = time.perf_counter()
            answer(connection, url, request)
            taken.append(time.perf_counter() - start)
            if connection.sock is None:  # closed by the server
                return None
    except (OSError, http.client.HTTPException, StartError):  # the load will count the failures
        return None
    finally:
        connection.close()
    return statistics.median(taken[1:])
