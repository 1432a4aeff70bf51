"""R3: a task that never returns, with protect=yes."""

from __future__ import annotations

import time

from lab.faults.clients import concurrent_clients
from lab.faults.machine.waiting import wait_until
from lab.faults.row import Outcome, Row, Size
from lab.faults.servers.faulty_server import FaultyServer, faulty
from offload.units import after, seconds

TIMEOUT_S = 2.0  # task_timeout of the server
LATE_S = 1.0  # after the timeout, until the response and until the next request is served
THREADS = ("threads", "interpreters", "anyio_threads")


def inject(server: str, size: Size) -> Outcome:
    """Let one call hang; where the task runs in threads let all of them hang, too."""
    settings = {"protect": "yes", "task_timeout": TIMEOUT_S}
    with faulty(server, "hang once", settings, workers=2) as target:
        began = time.monotonic()
        [status] = concurrent_clients.send_at_once(target.port, 1)
        answered_s = time.monotonic() - began
        again_s = wait_until(
            lambda: concurrent_clients.is_served(target.port), 2 * size.slack * LATE_S
        )
        target.act("ok")
        found = [f"{status or 'connection closed'} after {seconds(answered_s)}"]
        in_time = again_s is not None and answered_s + again_s <= TIMEOUT_S + size.slack * LATE_S
        is_kept = status == 504 and in_time
        found.append(after("served again", again_s))
        if server in THREADS:
            refused, released = _all_stuck(target)
            found.append(f"both threads stuck: {refused or 'no response'}, then {released}")
            is_kept = is_kept and (refused, released) == (503, 200)
    return Outcome(is_kept, "; ".join(found))


def _all_stuck(target: FaultyServer) -> tuple[int, int]:
    """Return the status while all threads are stuck, and the one after their end."""
    target.act("hang")
    concurrent_clients.send_at_once(target.port, 2)
    [refused] = concurrent_clients.send_at_once(target.port, 1)
    target.act("ok")
    wait_until(lambda: concurrent_clients.is_served(target.port), 4 * LATE_S)
    return refused, concurrent_clients.send_at_once(target.port, 1)[0]


ROW = Row(
    "R3",
    "a task that never returns (protect=yes)",
    "504 at the task timeout, the next request is served within 1 s; 503 if all threads are stuck",
    inject,
    ("threads", "processes", "pipes", "pebble"),
    others={"prefork": "the process is killed, and its connections are closed"},
    skipped={
        "sync": "it has no protection",
        "loop": "the task blocks the event loop: it has no timeout",
    },
)
