"""Serve: one server with one task, or what the network tasks fetch from."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from invoke import Context

from offload.cli import arguments, command
from offload.errors import UsageError
from offload.registry import catalog, places

if TYPE_CHECKING:
    from offload.suites import Case


@command("Serve")
def run_server(
    context: Context,
    server: str = "",
    task: str = "",
    port: str = "8000",
    workers: str = "",
    backlog: str = "",
    start_method: str = "",
    python: str = "",
    path: str = "",
    processes: str = "",
    threads: str = "",
    mode: str = "",
) -> None:
    """Serve a task with a server until Ctrl-C: fab run_server:3,network_sync.

    server        its number or name (2_group: the loop with a task that is split)
    task          its name, or package.module:function, or path/to/file.py:function; sleep_sync
                  unless given, sleep_async_split for 2_group
    port          on 127.0.0.1, 8000 unless given
    workers       of a pool, 4 unless given
    backlog       of the listen queue: 5 for sync, 1024 for the others
    start_method  of processes: forkserver unless given, spawn or fork
    python        the interpreter to serve with, this one unless given: a path, a name on PATH, or
                  3.14 as fab pythons names it; 3.13t-gil and 3.13t-nogil switch the GIL of 3.13t
    path          a folder that a task of your own imports from
    processes     of fastapi_requests (2 unless given), gunicorn_gthread, granian and Django (1)
    threads       of Rust in each process of granian, 1 unless given
    mode          of granian's: mt, one runtime for all threads, or st, one for each
    """
    from offload.bench.target import foreground

    foreground.become(
        _case(
            server,
            task,
            {
                "workers": workers,
                "processes": processes,
                "threads": threads,
                "mode": mode,
                "backlog": backlog,
                "start_method": start_method,
            },
            python=python or None,
            path=arguments.folder("path", path),
        ),
        arguments.whole("port", port, 1, 65535),
    )


@command("Serve")
def run_upstream(context: Context, latency: str = "0", port: str = "") -> None:
    """Serve what the network tasks fetch, HTTP and HTTPS, until Ctrl-C.

    latency  seconds before each answer (0 unless given)
    port     for HTTP on 127.0.0.1; 8081 unless given, or a free one when that is busy
    """
    from offload.bench.target import foreground

    words = ["--latency", str(arguments.seconds("latency", latency, 0.0))]
    if port:
        foreground.check_port(arguments.whole("port", port, 1, 65535))
        words += ["--port", port]
    _become("offload.upstream", *words)


@command("Serve")
def build_octopus_db(context: Context, rows: str = "1000000") -> None:
    """Build the database that the Django servers answer from, in some 10 s; checked by a hash.

    rows  octopuses, and as many links to what they eat; 1000000 unless given
    """
    count = arguments.whole("rows", rows, 1000, 10_000_000)
    _become("offload.serving.frameworks.octopus", str(count))


def _become(module: str, *words: str) -> None:
    """Replace this process by a module of ours, run as a program."""
    command = [sys.executable, "-P", "-m", module, *words]
    os.execve(sys.executable, command, os.environ | places.import_path())  # noqa: S606 - the point


def _case(
    server: str, task: str, settings: dict[str, str], python: str | None, path: str | None
) -> Case:
    from offload.suites import Case

    if not server:
        known = ", ".join(f"{e.number or ''} {e.name}".strip() for e in catalog.servers().values())
        raise UsageError(f"which server? fab run_server:NUMBER[,TASK] with one of {known}")
    given: dict[str, object] = {key: value for key, value in settings.items() if value}
    limits = {"workers": 256, "processes": 64, "threads": 256, "backlog": 65535}
    for key, most in limits.items():
        if key in given:
            given[key] = arguments.whole(key, settings[key], 1, most)
    if settings["start_method"]:
        arguments.one_of("start_method", settings["start_method"], "forkserver", "spawn", "fork")
    name = catalog.find_server(server).name
    return Case(
        name, task or catalog.default_task(server), settings=given, python=python, path=path
    )
