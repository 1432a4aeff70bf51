"""The commands run_server, run_upstream and build_octopus_db."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from invoke import Context

from offload.cli import arguments, case_options, command
from offload.errors import UsageError
from offload.registry import bind_address, catalog, places, setting_limits

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
    reuse_port: str = "",
    threads: str = "",
    mode: str = "",
    idempotent: str = "",
    scheduler: str = "",
    ssh: str = "",
    isolate: str = "",
    preload: str = "",
    app: str = "",
    bind: str = "",
    allowed_hosts: str = "",
    protect: str = "",
    max_wait: str = "",
    task_timeout: str = "",
    max_connections: str = "",
    health: str = "",
) -> None:
    """Serve a task with a server until Ctrl-C: offload run_server 3 network_sync.

    Your own application: offload run_server uvicorn_httptools app=shop.web:app.

    server        number or name of the server (2_group: the loop with sleep_async_split)
    task          a task name, package.module:function or path/to/file.py:function; default:
                  sleep_sync, for 2_group sleep_async_split
    port          port to listen on; default: 8000
    workers       maximum number of concurrent tasks in each process: workers of the pool, threads,
                  child processes or greenlets; default: 4; 40 for a thread or process per request
                  and for anyio's threads; 1000 for gevent
    backlog       length of the listen queue; default: 5 for sync, 1024 for the others
    start_method  start method of processes: forkserver (default), spawn or fork
    idempotent    for processes, pipes, pebble and dask: whether to retry a task after its worker
                  died, yes or no; default: yes for our tasks, no for your own
    scheduler     for dask: address of a running scheduler, tcp://HOST:8786; default: a cluster on
                  this machine
    ssh           for dask: hosts on which workers are started, separated by +, each as in ssh HOST
    isolate       for dask: yes to run each task in a process of its worker, so that a crash costs
                  one task and no worker; default: no; with protect=yes: yes
    python        interpreter of the server: a path, a name on PATH or a name from offload pythons,
                  such as 3.14; 3.13t-gil and 3.13t-nogil set the GIL of 3.13t; default: this one
    path          a folder from which your own task or application imports
    app           your own ASGI or WSGI application, served unchanged, instead of a task:
                  package.module:name, its factory as package.module:create_app(), or the settings
                  module of Django
    processes     processes that share the port: of prefork and uvicorn_workers (default: 4),
                  fastapi_requests (2), threads, starlette_threads, other gunicorn servers, granian
                  and Django (1)
    reuse_port    for threads and prefork: yes to give each process a socket of its own on the port
                  (SO_REUSEPORT): connections are divided evenly; default: no
    threads       Rust threads in each process of granian; default: 1
    mode          runtime mode of granian: mt (one runtime for all threads) or st (one for each)
    preload       for gunicorn: yes to import your application before the processes are forked, so
                  that they share its memory; default: no
    bind          IPv4 address of this machine to listen on, such as 10.0.0.5, or 0.0.0.0 for all:
                  other machines can then run the task; default: 127.0.0.1
    allowed_hosts names that requests may have in their Host header, besides 127.0.0.1, localhost,
                  [::1] and the address of bind=, separated by +; without it an application of your
                  own gets every request
    protect       for servers on Tornado: yes to refuse requests under overload, limit the time of
                  tasks and drop requests of disconnected clients: docs/reliability.rst; default: no
    max_wait      with protect: refuse a request whose expected wait is longer, in s; default: 5
    task_timeout  with protect: respond 504 if a task takes longer, in s; default: 30
    max_connections  with protect: maximum number of open connections; default: 2048
    health        for servers on Tornado: yes to serve /healthz, /readyz and /metrics; default: no
    """
    from offload.bench.target import foreground

    if app and task:
        raise UsageError("app= and a task exclude each other", "use one of them")
    foreground.exec_server(
        _case(
            server,
            case_options.work(app) if app else task,
            {
                "workers": workers,
                "processes": processes,
                "reuse_port": reuse_port,
                "threads": threads,
                "mode": mode,
                "backlog": backlog,
                "start_method": start_method,
                "idempotent": idempotent,
                "scheduler": scheduler,
                "ssh": ssh,
                "isolate": isolate,
                "preload": preload,
                "bind": bind and bind_address.parse(bind),
                "allowed_hosts": allowed_hosts,
                "protect": protect,
                "max_wait": max_wait,
                "task_timeout": task_timeout,
                "max_connections": max_connections,
                "health": health,
            },
            python=python or None,
            path=arguments.folder("path", path),
        ),
        arguments.whole_number("port", port, 1, 65535),
    )


@command("Serve")
def run_upstream(context: Context, latency: str = "0", port: str = "") -> None:
    """Serve the upstream of the network tasks, HTTP and HTTPS, until Ctrl-C.

    latency  seconds before each response; default: 0
    port     HTTP port on 127.0.0.1; default: 8081, or a free port if that is in use
    """
    from offload.bench.target import foreground

    options = ["--latency", str(arguments.seconds("latency", latency, 0.0))]
    if port:
        foreground.check_port(arguments.whole_number("port", port, 1, 65535))
        options += ["--port", port]
    _exec_module("offload.upstream", *options)


@command("Serve")
def build_octopus_db(context: Context, rows: str = "1000000") -> None:
    """Build the database of the Django servers in about 10 s, and verify it by a hash.

    rows  number of octopuses, and of links to their food; default: 1000000
    """
    count = arguments.whole_number("rows", rows, 1000, 10_000_000)
    _exec_module("offload.serving.frameworks.octopus", str(count))


def _exec_module(module: str, *options: str) -> None:
    """Replace this process by a module of this package that runs as a program."""
    command = [sys.executable, "-P", "-m", module, *options]
    os.execve(sys.executable, command, os.environ | places.import_path())  # noqa: S606 - the point


def _case(
    server: str, task: str, settings: dict[str, str], python: str | None, path: str | None
) -> Case:
    from offload.suites import Case

    if not server:
        known = ", ".join(f"{e.number or ''} {e.name}".strip() for e in catalog.servers().values())
        raise UsageError(
            "no server given", f"use offload run_server NUMBER [TASK] with one of {known}"
        )
    chosen: dict[str, object] = {key: value for key, value in settings.items() if value}
    defaults = catalog.find_server(server).settings
    for key in (key for key in setting_limits.MAXIMA if key in chosen):
        limit = setting_limits.maximum(key, defaults.get(key))
        chosen[key] = arguments.whole_number(key, settings[key], 1, limit)
    setting_limits.check_product(chosen, defaults)
    for key in (key for key in setting_limits.SECONDS if key in chosen):
        least, most = setting_limits.MIN_S, setting_limits.MAX_S
        chosen[key] = arguments.number(key, settings[key], least, most)
    for key in (key for key in setting_limits.YES_OR_NO if key in chosen):
        arguments.one_of(key, settings[key], "yes", "no")
    if settings["start_method"]:
        arguments.one_of("start_method", settings["start_method"], "forkserver", "spawn", "fork")
    name = catalog.find_server(server).name
    return Case(
        name, task or catalog.default_task(server), settings=chosen, python=python, path=path
    )
