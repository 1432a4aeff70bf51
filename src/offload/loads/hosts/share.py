"""The share of a load on one host: a program that the agent starts, with its processes.

It reads a line with the load, prepares its processes and writes PREPARED. Then it reads a line with
the agreed times, sends its share of the load, and writes the samples. It ends with the agent.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from offload import prctl
from offload.loads.builtin import parse_load
from offload.loads.engine import processes
from offload.loads.engine.processes import READY, AgreedTimes, LoadProcesses, SharedState
from offload.loads.hosts import protocol
from offload.loads.hosts.agent import PREPARED

LONGEST_S = 20.0  # until all processes are ready
POLL = 0.005  # s


def main(arguments: list[str]) -> int:
    """Run the share whose JSON is the first line of stdin; the argument is the agent's pid."""
    prctl.end_with(int(arguments[0]))
    given = _line()
    if given is None:
        return 0
    load = parse_load(given["load"])
    state = SharedState(given["processes"], given["first"])
    running = processes.start_processes(load, state)
    try:
        if not _wait_until_ready(running):
            print("the load processes did not start", file=sys.stderr)
            return 1
        _write(PREPARED)
        if (times := _line()) is None:
            return 0
        state.agree(AgreedTimes(**times))
        _write(protocol.encode_samples(running.samples()))
        return 0
    finally:
        for child in running.children:  # without this, the exit would wait for them
            child.kill()


def _wait_until_ready(running: LoadProcesses) -> bool:
    until = time.monotonic() + LONGEST_S
    while not all(running.state.values(READY)):
        if time.monotonic() > until or not all(child.is_alive() for child in running.children):
            return False
        time.sleep(POLL)
    return True


def _line() -> dict[str, Any] | None:
    """Read a line of JSON; None at the end of stdin."""
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
