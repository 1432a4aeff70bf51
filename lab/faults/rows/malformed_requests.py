"""R8: malformed requests of public test suites, to the parsers and the protection of ours."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lab.faults.machine.waiting import wait_until
from lab.faults.requests import attack
from lab.faults.row import Outcome, Row, Size
from lab.faults.servers.faulty_server import faulty

PROTECTED = "-protected"
TRACEBACK = "Traceback (most recent call last)"
MOST_LINES_PER_S = 1.0  # of log
SETTLE_S = 5.0  # until descriptors of closed connections are closed
SETTINGS = {"backlog": 1024}


def inject(server: str, size: Size) -> Outcome:
    """Send each request, and compare responses, log, processes and open descriptors."""
    protect = "yes" if server.endswith(PROTECTED) else "no"
    name, settings = server.removesuffix(PROTECTED), {**SETTINGS, "protect": protect}
    with faulty(name, "ok", settings, workers=2) as target:
        attack.warm_up(target.port)
        before, logged, began = target.open_files(), len(target.log_text()), time.monotonic()
        tally = attack.run(target.port, attack.messages())
        took_s = time.monotonic() - began
        wait_until(lambda: not _count_leaked(before, target.open_files()), size.slack * SETTLE_S)
        after, log = target.open_files(), target.log_text()[logged:]
    lines, tracebacks = len(log.splitlines()), log.count(TRACEBACK)
    ended = len(before.keys() - after.keys())
    figure = (
        f"{tally.figure}; log: {lines} lines, {tracebacks} tracebacks; "
        f"descriptors: {sum(before.values())}, {_count_leaked(before, after)} leaked; "
        f"{ended} of {len(before)} processes ended"
    )
    is_kept = (
        not tally.is_cut
        and not tally.faults
        and not tally.unserved
        and not tracebacks
        and lines <= MOST_LINES_PER_S * took_s + 1
        and not ended
        and not _count_leaked(before, after)
    )
    return Outcome(is_kept, figure)


def _count_leaked(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return how many descriptors the processes have more than before."""
    return sum(max(0, count - before.get(pid, 0)) for pid, count in after.items())


ROW = Row(
    "R8",
    "valid requests, and malformed ones of public test suites",
    "one complete response of 400 or more, or the connection is closed; the next request is "
    "served; no crash, no traceback, at most one line of log a second, no descriptor leaks",
    inject,
    ("sync", "loop", f"loop{PROTECTED}", f"threads{PROTECTED}"),
)
