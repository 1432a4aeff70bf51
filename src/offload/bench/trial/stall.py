"""The stall of a kept connection: a response in two writes waits about 40 ms for a delayed ACK.

Without TCP_NODELAY the server's kernel holds back the second write until the first one is
acknowledged, and the client delays its acknowledgements, except on a new connection.
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
    """Return the median response time in s on one kept connection, without its first request.

    None if the server closes the connection, or if `alone_s` is above SLOW: then no request is
    sent.
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
    except (OSError, http.client.HTTPException, StartError):  # the load counts such failures
        return None
    finally:
        connection.close()
    return statistics.median(taken[1:])
