"""builtin: the embedded load tool (asyncio and httptools), which measures every request's time."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from offload.errors import Flag
from offload.loads._load import (
    Arrivals,
    Command,
    Figures,
    Load,
    LoadResult,
    Message,
    Response,
    Window,
)
from offload.loads.engine.figures import summary
from offload.loads.engine.processes import SharedState, counted_time, run_processes, work

TOOL = None
INSTALL = None
MAX_USERS = 20_000
FILE = "load.json"
NESTED = ("figures", "response")  # in a result


def command(load: Load) -> Command:
    """Run this module as a program, so that the load has its own process.

    The load is in a file, because other users can read arguments.
    """
    argv = (sys.executable, "-P", "-m", __name__, f"{{folder}}/{FILE}")
    return Command(argv, files={FILE: json.dumps(asdict(load))}, threads=load.processes)


def parse(stdout: str, stderr: str, load: Load) -> LoadResult:
    """Parse the JSON that `main` printed; a sitecustomize.py may print before and after it."""
    try:
        values, _ = json.JSONDecoder().raw_decode(stdout, stdout.index("{\n"))
        figures = values["figures"]
        response = Response(**figures.get("response", {}))
        notes = tuple(Flag(**note) for note in values.get("notes", ()))
        known = {"figures": Figures(**{**figures, "response": response}), "notes": notes}
        return LoadResult(**{**values, **known})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        last = (stderr.strip().splitlines() or ["its output is empty"])[-1]
        return LoadResult(problem=f"builtin printed no result: {last}")


def version() -> str:
    """Return the versions of the libraries of this tool."""
    from importlib import metadata  # this import takes a quarter of the start time

    python = ".".join(map(str, sys.version_info[:3]))
    loop = "asyncio"
    with contextlib.suppress(metadata.PackageNotFoundError):
        loop = f"uvloop {metadata.version('uvloop')}"
    return f"(httptools {metadata.version('httptools')}, {loop}, Python {python})"


def main(arguments: list[str]) -> None:
    """Run the load in the file that is the argument, and print the result as JSON."""
    [file] = arguments
    load = parse_load(json.loads(Path(file).read_text()))
    state = SharedState(load.processes)
    parts = [work(load, load, state, 0)] if load.processes == 1 else run_processes(load, state)
    print(_json(asdict(summary(load, counted_time(load, state, parts), parts))))


def parse_load(values: Mapping[str, Any]) -> Load:
    """Build a load from the values of its JSON."""
    arrivals = values["arrivals"] and Arrivals(**values["arrivals"])
    message, window = Message(**values["message"]), Window(**values["window"])
    return Load(**{**values, "message": message, "window": window, "arrivals": arrivals})


def _json(values: Mapping[str, Any], indent: str = "") -> str:
    """Return the values that are not None as JSON, one per line."""
    inner = f"{indent} "
    lines = [
        f"{inner}{json.dumps(k)}: {_json(v, inner) if k in NESTED else json.dumps(v)}"
        for k, v in values.items()
        if v is not None
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


if __name__ == "__main__":
    main(sys.argv[1:])
