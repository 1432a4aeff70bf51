"""R1: worker processes are killed by SIGKILL repeatedly, while clients send requests."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from lab.faults.clients import concurrent_clients
from lab.faults.machine.processes import kill
from lab.faults.machine.waiting import wait_until
from lab.faults.row import Outcome, Row, Size, judge_server
from lab.faults.servers.faulty_server import faulty
from offload.units import after, counted

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
        with concurrent_clients.steady(target.port, size.clients) as samples:
            wait_until(lambda: len(samples.all) > size.clients, START_S)
            for _ in range(size.kills):
                if workers := target.workers():
                    kills.append(time.monotonic())
                    kill(generator.choice(workers))
                time.sleep(size.interval_s)
            wait_until(lambda: _is_served(samples, kills), LONGEST_S)
        alive = target.is_alive()
    longest_s = _longest_s(samples, kills)
    in_time = longest_s is not None and longest_s <= size.slack * within_s
    return judge_server(not samples.failed and in_time, [_figure(samples, kills)], alive)


def _figure(samples: concurrent_clients.Samples, kills: Sequence[float]) -> str:
    return (
        f"{counted(len(kills), 'kill')}: {samples.failed} of {len(samples.all)} requests failed; "
        + after("served again", _longest_s(samples, kills))
    )


def _longest_s(samples: concurrent_clients.Samples, kills: Sequence[float]) -> float | None:
    """Return the longest time until a request after a kill was served; None if one was not."""
    waits = [samples.served_after_s(at) for at in kills]
    known = [wait for wait in waits if wait is not None]
    return max(known) if known and len(known) == len(waits) else None


def _is_served(samples: concurrent_clients.Samples, kills: Sequence[float]) -> bool:
    return bool(kills) and samples.served_after_s(kills[-1]) is not None


ROW = Row(
    "R1",
    "repeated kill -9 of a worker",
    "no request fails, and the next one is served within 1 s",
    inject,
    ("processes", "pipes"),
    others={
        "pebble": "if the killed worker holds pebble's lock, the others stop for 10 s",
        "prefork": "the connections of a killed process are closed",
        "plain_processes": "the standard pool breaks and stays broken",
        "gunicorn_sync": "the connections of a killed process are closed",
        "uvicorn_workers": "the connections of a killed process are closed",
        "granian_asgi": "the connections of a killed process are closed",
    },
    skipped=dict.fromkeys(("sync", "loop", "threads"), "it has no worker processes"),
)
