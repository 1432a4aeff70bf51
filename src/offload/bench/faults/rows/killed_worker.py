"""R1: a worker process is killed by SIGKILL, again and again, while clients send requests."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from offload.bench.faults import clients
from offload.bench.faults.faulty_server import faulty, kill, wait_until
from offload.bench.faults.row import Outcome, Row, Size
from offload.units import seconds

WITHIN_S = 1.0  # until a request that was sent after the kill is answered
START_S = 5.0  # for clients and workers
LONGEST_S = 10.0  # wait for a response after the last kill


def inject(server: str, size: Size) -> Outcome:
    """Kill workers; the next request must be served within WITHIN_S."""
    return kill_workers(server, size, WITHIN_S)


def kill_workers(server: str, size: Size, within_s: float) -> Outcome:
    """Kill one worker at a time, and count the requests that had no response of status 200."""
    generator = random.Random(size.kills)  # noqa: S311 - repeatable
    kills: list[float] = []
    with faulty(server, "nap", {"idempotent": "yes"}) as target:
        with clients.steady(target.port, size.clients) as samples:
            wait_until(lambda: len(samples.all) > size.clients, START_S)
            for _ in range(size.kills):
                if workers := target.workers():
                    kills.append(time.monotonic())
                    kill(generator.choice(workers))
                time.sleep(size.interval_s)
            wait_until(lambda: _is_served(samples, kills), LONGEST_S)
        alive = target.is_alive()
    waits = [samples.served_after_s(at) for at in kills]
    known = [wait for wait in waits if wait is not None]
    in_time = len(known) == len(waits) and max(known, default=0.0) <= size.slack * within_s
    longest = seconds(max(known)) if len(known) == len(waits) and known else "never"
    figure = (
        f"{len(kills)} kills: {samples.failed} of {len(samples.all)} requests failed; "
        f"served again after {longest}" + ("" if alive else "; the server ended")
    )
    is_kept = bool(kills) and not samples.failed and in_time and alive
    return Outcome(is_kept, figure)


def _is_served(samples: clients.Samples, kills: Sequence[float]) -> bool:
    return bool(kills) and samples.served_after_s(kills[-1]) is not None


ROW = Row(
    "R1",
    "kill -9 of a worker, again and again",
    "no request fails, and the next one is served within 1 s",
    inject,
    ("processes", "pipes", "pebble"),
    others={
        "prefork": "the connections of a killed process are closed",
        "plain_processes": "the standard pool breaks and stays broken",
        "gunicorn_sync": "the connections of a killed process are closed",
        "uvicorn_workers": "the connections of a killed process are closed",
        "granian_asgi": "the connections of a killed process are closed",
    },
    skipped=dict.fromkeys(("sync", "loop", "threads"), "it has no worker processes"),
)
