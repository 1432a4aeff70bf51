"""R12: the port is busy or invalid, siege or a library is missing, files are limited."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.faults.commands import failing_commands
from lab.faults.commands.bench_process import BENCH
from lab.faults.commands.failing_commands import Case, offload
from lab.faults.row import Outcome, Row, Size
from offload.registry import catalog, places
from offload.units import seconds

WITHIN_S = 1.0
TASK = "noop_sync"
FILES = 32  # limit of open files: Python starts, a server has no room for connections
BAD_PORTS = ("0", "80000", "-1")
INDEPENDENT = ("sync",)  # imports no package
DEFAULT_LIBRARY = "tornado"  # of servers that name no package
USAGE, ENVIRONMENT = 2, 3  # exit codes


def inject(server: str, size: Size) -> Outcome:
    """Start a server, or the bench, where something is missing."""
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as temporary, _busy_port() as port:
        folder = Path(temporary)
        cases = _of_bench(port, folder) if server == BENCH else _of_server(server, port, folder)
        wrong, slowest_s = failing_commands.check(cases, size.slack * WITHIN_S)
    found = (
        f"{len(cases) - len(wrong)} of {len(cases)} commands: one line with the fix and nothing "
        f"written, the slowest after {seconds(slowest_s)}"
    )
    return Outcome(not wrong, "; ".join([found, *wrong]))


def _of_server(server: str, busy: int, folder: Path) -> list[Case]:
    run = f"run_server:{server},{TASK}"
    cases = [
        Case("busy port", offload(f"{run},port={busy}"), ENVIRONMENT, "port="),
        Case("port that was taken", _program(server, busy), ENVIRONMENT, "port="),
        *(Case(f"port={p}", offload(f"{run},port={p}"), USAGE, "1 to 65535") for p in BAD_PORTS),
        Case("open files", _program(server, 0), ENVIRONMENT, "ulimit -n", files=FILES),
    ]
    return cases if server in INDEPENDENT else [*cases, _without_library(server, folder)]


def _of_bench(busy: int, folder: Path) -> list[Case]:
    """Return commands without siege, with few files, and with a busy port."""
    without = {"PATH": str(folder)}
    url = f"url=http://127.0.0.1:{busy}/"
    return [
        Case(
            "load without siege",
            offload(f"run_load_test:driver=siege,{url}"),
            ENVIRONMENT,
            "apt install siege",
            without,
        ),
        Case(
            "suite without siege",
            offload("run_suite:tornado,driver=siege"),
            ENVIRONMENT,
            "apt install siege",
            without,
        ),
        Case(
            "measurement without files",
            offload(f"measure:threads/{TASK}"),
            ENVIRONMENT,
            "ulimit -n",
            files=FILES,
        ),
        Case(
            "users without files",
            offload(f"run_load_test:users=1000,driver=builtin,{url}"),
            ENVIRONMENT,
            "ulimit -n",
            files=256,
        ),
        Case("busy upstream", offload(f"run_upstream:port={busy}"), ENVIRONMENT, "port="),
        *(
            Case(f"upstream, port={p}", offload(f"run_upstream:port={p}"), USAGE, "1 to 65535")
            for p in BAD_PORTS
        ),
    ]


def _program(server: str, port: int, *options: str) -> list[str]:
    """Return the command line that the bench uses to start a server."""
    return [sys.executable, *options, "-P", "-m", "offload.servers", server, TASK, str(port)]


def _without_library(server: str, folder: Path) -> Case:
    """Return a start where a library of the server is not installed.

    With -S, Python imports from PYTHONPATH only: a folder with links to all other packages.
    """
    library = (*catalog.find_server(server).needs, DEFAULT_LIBRARY)[0]
    for key in ("purelib", "platlib"):
        for entry in Path(sysconfig.get_path(key)).iterdir():
            link = folder / entry.name
            if not link.is_symlink() and not _belongs_to(entry.name, library):
                link.symlink_to(entry)
    path = [places.import_path().get("PYTHONPATH", ""), str(folder)]
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    command = _program(server, 0, "-S")
    return Case(f"no {library}", command, ENVIRONMENT, _install(library), variables)


def _belongs_to(name: str, library: str) -> bool:
    return name.partition(".")[0] == library or name.lower().startswith(f"{library}-")


def _install(library: str) -> str:
    return "make " if places.CHECKOUT is not None else f"pip install {library}"


@contextmanager
def _busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


ROW = Row(
    "R12",
    "the port is busy or invalid, siege or a library is missing, few open files are allowed",
    "one line with the fix, the exit code 2 or 3, no file written, within 1 s",
    inject,
    ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork", BENCH),
    others=dict.fromkeys(
        ("plain_threads", "gunicorn_sync", "uvicorn_workers", "granian_asgi"),
        "its errors before it serves are its own",
    ),
)
