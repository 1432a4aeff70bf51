"""R2: a task that always kills its worker."""

from __future__ import annotations

import time

from lab.faults.clients.concurrent_clients import is_served, send_at_once
from lab.faults.machine.waiting import wait_until
from lab.faults.row import Outcome, Row, Size, judge_server
from lab.faults.servers.faulty_server import faulty
from offload.units import after

MOST_LOG = 100_000  # bytes of log per minute
SERVED_S = 2.0  # until the server responds after the last death
ERRORS = (500, 502, 503)


def inject(server: str, size: Size) -> Outcome:
    """Send requests whose task kills its worker, and then requests whose task does not."""
    with faulty(server, "ok", {"idempotent": "no"}, workers=2) as target:
        before = len(target.log_text())
        target.act("die")
        began = time.monotonic()
        statuses = [send_at_once(target.port, 1)[0] for _ in range(size.requests)]
        took_s = time.monotonic() - began
        logged = len(target.log_text()) - before
        target.act("ok")
        after_s = wait_until(lambda: is_served(target.port), 2 * size.slack * SERVED_S)
        alive = target.is_alive()
    errors = sum(status in ERRORS for status in statuses)
    per_minute = logged * 60 / max(took_s, 1.0)
    figure = (
        f"{errors} of {len(statuses)} requests ended in an error response, "
        f"{per_minute / 1000:.1f} kB of log a minute"
    )
    in_time = after_s is not None and after_s <= size.slack * SERVED_S
    is_kept = errors == len(statuses) and per_minute <= MOST_LOG and in_time
    return judge_server(is_kept, [figure, after("served again", after_s)], alive)


ROW = Row(
    "R2",
    "a task that always kills its worker",
    "an error for each such request, others are served within 2 s, under 100 kB of log a minute",
    inject,
    ("processes", "pipes", "pebble"),
    others={
        "prefork": "the connection is closed without a response",
        "plain_processes": "the standard pool stays broken",
        "gunicorn_sync": "the connection is closed without a response",
        "uvicorn_workers": "the connection is closed without a response",
        "granian_asgi": "the connection is closed without a response",
    },
    skipped=dict.fromkeys(("sync", "loop", "threads"), "the task runs in the server's process"),
)
