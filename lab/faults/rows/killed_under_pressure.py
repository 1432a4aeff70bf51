"""R1-pressure: worker processes are killed repeatedly, while stress-ng uses the machine."""

from __future__ import annotations

from lab.faults.machine.pressure import pressure
from lab.faults.row import Outcome, Row, Size
from lab.faults.rows import killed_worker

WITHIN_S = 3.0  # until a request that was sent after the kill is answered


def inject(server: str, size: Size) -> Outcome:
    """Start the server under pressure, and kill its workers."""
    with pressure():
        return killed_worker.kill_workers(server, size, WITHIN_S)


ROW = Row(
    "R1-pressure",
    "repeated kill -9 of a worker while stress-ng uses the CPUs and 256 MiB of memory",
    "no request fails, and the next one is served within 3 s",
    inject,
    killed_worker.ROW.servers,
    others={"pebble": killed_worker.ROW.others["pebble"]},
)
