"""R4: tasks that fail in every way that Python has."""

from __future__ import annotations

from lab.faults.clients import concurrent_clients
from lab.faults.row import Outcome, Row, Size, judge_server
from lab.faults.servers.faulty_server import faulty

FAILURES = (
    "exception",
    "BaseException",
    "exception that cannot be pickled",
    "KeyboardInterrupt",
    "sys.exit",
    "recursion",
    "result that cannot be pickled",
    "invalid result",
)
TRACEBACK = "Traceback (most recent call last)"
MOST_LINES = 2  # of log for each failure


def inject(server: str, size: Size) -> Outcome:
    """Let a task fail in each way; after each failure the next request must be served."""
    wrong = []
    with faulty(server, "ok", workers=2) as target:
        concurrent_clients.send_at_once(target.port, 1)
        before = len(target.log_text().splitlines())
        for how in FAILURES:
            target.act(how)
            [failed] = concurrent_clients.send_at_once(target.port, 1)
            target.act("ok")
            [served] = concurrent_clients.send_at_once(target.port, 1)
            if (failed, served) != (500, 200):
                wrong.append(f"{how}: {failed or 'closed'}, then {served or 'closed'}")
        log = target.log_text()
        alive = target.is_alive()
    lines, tracebacks = len(log.splitlines()) - before, log.count(TRACEBACK)
    found = [f"{len(FAILURES) - len(wrong)} of {len(FAILURES)} kinds of failure: 500, then 200"]
    found += wrong
    found.append(f"lines of log: {lines}, tracebacks: {tracebacks}")
    is_kept = not wrong and not tracebacks and 1 <= lines <= MOST_LINES * len(FAILURES)
    return judge_server(is_kept, found, alive)


ROW = Row(
    "R4",
    "a task that fails, for example by sys.exit or with an invalid result",
    "500 with one line of log, and the next request is served",
    inject,
    ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork"),
    others={
        "plain_threads": "the standard executor has no such promise",
        "plain_processes": "the standard executor has no such promise",
    },
)
