"""The command `python -m offload.reports.live`: serve the page in the background.

It prints the line `ready PID URL`, or an error. It is no child of the process that started
it, has no terminal, and runs at the lowest priority.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from offload.reports.live import server
from offload.reports.live.launch import READY, RUN
from offload.reports.live.pipe_view import PipeView
from offload.reports.live.run_view import RunView
from offload.reports.live.view import Source


def main(arguments: Sequence[str]) -> int:
    """Serve what the arguments name; return the exit code."""
    kind, name, idle_s = arguments
    if os.fork():
        os._exit(0)
    _lower_priority()
    os.chdir("/")
    try:
        source: Source = RunView(Path(name)) if kind == RUN else PipeView(name, sys.stdin.fileno())
        asyncio.run(server.serve(source, float(idle_s), _report))
    except OSError as error:
        print(error.strerror, flush=True)
        return 1
    return 0


def _lower_priority() -> None:
    """Yield the CPU to what is measured, also if the kernel shares it between sessions first."""
    os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def _report(url: str) -> None:
    """Print the address, then close the streams: nobody reads them any more."""
    print(f"{READY}{os.getpid()} {url}", flush=True)
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
