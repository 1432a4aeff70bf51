"""The commands run_server, run_upstream and build_octopus_db."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from offload import options
from offload.cli.program import command
from offload.errors import UsageError
from offload.options import application_task, arguments
from offload.registry import catalog, entries, places

if TYPE_CHECKING:
    from offload.suites import Case


@command("Serve")
def run_server(
    server: options.RunServerServer = "",
    task: options.Task = "",
    port: options.RunServerPort = 8000,
    *,
    python: options.RunServerPython = "",
    app: options.App = "",
    path: options.Path = None,
    settings: options.Settings = options.Settings(),
) -> None:
    """Serve a task with a server until Ctrl-C.

    Examples:
      offload run_server 3 network_sync
      offload run_server uvicorn_httptools app=shop.web:app
    """
    from offload.engine import running_servers

    if app and task:
        raise UsageError("app= and a task exclude each other", "use one of them")
    work = application_task(app) if app else task
    running_servers.exec_server(_case(server, work, settings, python or None, path), port)


@command("Serve")
def run_upstream(
    *,
    latency: options.RunUpstreamLatency = 0.0,
    port: options.RunUpstreamPort = None,
) -> None:
    """Serve the upstream of the network tasks, HTTP and HTTPS, until Ctrl-C.

    Example: offload run_upstream latency=0.05
    """
    from offload.engine import running_servers

    words = ["--latency", str(latency)]
    if port is not None:
        running_servers.check_port(port)
        words += ["--port", str(port)]
    _exec_module("offload.upstream", *words)


@command("Serve")
def build_octopus_db(
    rows: options.BuildOctopusDbRows = 1_000_000,
) -> None:
    """Build the database of the Django servers in 10 s, and verify it by a hash."""
    _exec_module("offload.serving.frameworks.octopus", str(rows))


def _exec_module(module: str, *options: str) -> None:
    """Replace this process by a module of this package that runs as a program."""
    command = [sys.executable, "-P", "-m", module, *options]
    os.execve(sys.executable, command, os.environ | places.import_path())  # noqa: S606 - the point


def _case(
    server: str, task: str, settings: options.Settings, python: str | None, path: str | None
) -> Case:
    from offload.suites import Case

    if not server:
        known = ", ".join(f"{e.number or ''} {e.name}".strip() for e in catalog.servers().values())
        fix = f"use offload run_server NUMBER [TASK] with one of {known}"
        raise UsageError("no server given", fix)
    chosen: dict[str, object] = {key: value for key, value in vars(settings).items() if value}
    defaults = catalog.find_server(server).settings
    for key in (key for key in entries.MAXIMA if key in chosen):
        limit = entries.maximum(key, defaults.get(key))
        chosen[key] = arguments.whole_number(key, str(chosen[key]), 1, limit)
    entries.check_product(chosen, defaults)
    name = catalog.find_server(server).name
    return Case(
        name, task or catalog.default_task(server), settings=chosen, python=python, path=path
    )
