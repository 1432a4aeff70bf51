"""builtin: the embedded load tool, asyncio over httptools, with exact times of every request."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version

from offload.flags import Flag
from offload.loads import Command, Load, Measured
from offload.loads.engine.shared_state import Board
from offload.loads.engine.summary import summary, window
from offload.loads.engine.worker import work

TOOL = None
INSTALL = None
MAX_USERS = 20_000


def command(load: Load) -> Command:
    """Run this module as a program, so that the load has a process of its own."""
    return Command((sys.executable, "-P", "-m", __name__, json.dumps(asdict(load))))


def parse(stdout: str, stderr: str, load: Load) -> Measured:
    """Read what `main` printed."""
    try:
        said = json.loads(stdout)
        notes = tuple(Flag(**note) for note in said.get("notes", ()))
        return Measured(**{**said, "notes": notes})
    except (ValueError, TypeError, AttributeError, RecursionError):
        last = (stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Measured(problem=f"builtin printed no result: {last}")


def version() -> str:
    """Name what this tool consists of."""
    python = ".".join(map(str, sys.version_info[:3]))
    loop = "asyncio"
    with contextlib.suppress(PackageNotFoundError):
        loop = f"uvloop {package_version('uvloop')}"
    return f"(httptools {package_version('httptools')}, {loop}, Python {python})"


def main(words: list[str]) -> None:
    """Run the load that stands in the first word as JSON, and print what was measured as JSON."""
    load = Load(**json.loads(words[0]))
    board = Board(load.processes)
    if load.processes == 1:
        parts = [work(load, load, board, 0)]
    else:
        from offload.loads.engine import processes  # whose imports take a tenth of the start

        parts = processes.run(load, board)
    measured = asdict(summary(load, window(load, board, parts), parts))
    known = {key: value for key, value in measured.items() if value is not None}
    print("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(known[k])}" for k in known) + "\n}")


if __name__ == "__main__":
    main(sys.argv[1:])
