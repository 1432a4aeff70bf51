"""The stall of a kept connection: an answer in two writes waits for a delayed ACK, some 40 ms.

A server without TCP_NODELAY holds its second write back until the first is acknowledged, and a
client that has asked before on the connection delays that. A fresh connection shows nothing of it.
"""

from __future__ import annotations

import http.client
import statistics
import time

from offload.bench.trial.warmup import GET, answer, connected
from offload.errors import StartError
from offload.suites import Request

TIMES = 6  # requests; the first is as on a fresh connection
SLOW = 0.25  # s of a request alone, beyond which a stall is a small part of it


def kept_s(url: str, alone_s: float, request: Request = GET) -> float | None:
    """Return the median response time on one kept connection, in s, without its first request.

    None where the server keeps no connection, and for slow requests, which are not sent.
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
    except (OSError, http.client.HTTPException, StartError):  # the load will count what it answers
        return None
    finally:
        connection.close()
    return statistics.median(taken[1:])
