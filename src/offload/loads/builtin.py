"""builtin: the embedded load tool, asyncio over httptools; it times every request exactly."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version

from offload.flags import Flag
from offload.loads import Command, Load, LoadResult
from offload.loads.engine.shared_state import SharedState
from offload.loads.engine.summary import summary, window
from offload.loads.engine.worker import work

TOOL = None
INSTALL = None
MAX_USERS = 20_000


def command(load: Load) -> Command:
    """Run this module as a program, so that the load has its own process."""
    return Command((sys.executable, "-P", "-m", __name__, json.dumps(asdict(load))))


def parse(stdout: str, stderr: str, load: Load) -> LoadResult:
    """Parse the JSON that `main` printed."""
    try:
        values = json.loads(stdout)
        notes = tuple(Flag(**note) for note in values.get("notes", ()))
        return LoadResult(**{**values, "notes": notes})
    except (ValueError, TypeError, AttributeError, RecursionError):
        last = (stderr.strip().splitlines() or ["its output is empty"])[-1]
        return LoadResult(problem=f"builtin printed no result: {last}")


def version() -> str:
    """Name the versions of the libraries this tool consists of."""
    python = ".".join(map(str, sys.version_info[:3]))
    loop = "asyncio"
    with contextlib.suppress(PackageNotFoundError):
        loop = f"uvloop {package_version('uvloop')}"
    return f"(httptools {package_version('httptools')}, {loop}, Python {python})"


def main(arguments: list[str]) -> None:
    """Run the load given as JSON in the first argument, and print the result as JSON."""
    load = Load(**json.loads(arguments[0]))
    state = SharedState(load.processes)
    if load.processes == 1:
        parts = [work(load, load, state, 0)]
    else:
        from offload.loads.engine import processes  # these imports take a tenth of the start

        parts = processes.run(load, state)
    result = asdict(summary(load, window(load, state, parts), parts))
    known = {key: value for key, value in result.items() if value is not None}
    print("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(known[k])}" for k in known) + "\n}")


if __name__ == "__main__":
    main(sys.argv[1:])
