"""granian with this process as its main process: its Rust workers call Python for each task."""

from __future__ import annotations

import socket

from granian import Granian
from granian.constants import Interfaces, Loops, RuntimeModes
from granian.errors import FatalError
from granian.log import LogLevels

from offload.errors import StartError, UsageError
from offload.registry.catalog import is_application
from offload.serving.applications import user_worker
from offload.serving.lifecycle import readiness, worker_ready
from offload.serving.metrics import own_gil

MODES = ("mt", "st")  # one multi-threaded runtime, or a single-threaded runtime per thread


def serve(
    task: str, port: int, backlog: int, interface: str, workers: int, threads: int, mode: str
) -> None:
    """Serve until a stop signal, in `workers` processes of `threads` each; `mode` is mt or st."""
    if mode not in MODES:
        raise UsageError(f"mode={mode!r} is not one of {', '.join(MODES)}")
    user_worker.check(task)
    with readiness.binding(port), socket.create_server((readiness.address(), port)) as probe:
        port = probe.getsockname()[1]  # granian needs the number and opens the port itself
    worker_ready.expect(task, _expected_reports(task, interface, workers), port)
    blocking = {"blocking_threads": threads} if interface == "wsgi" else {}
    server = Granian(
        f"offload.serving.applications.{interface}:application",
        address=readiness.address(),
        port=port,
        interface=Interfaces(interface),
        workers=workers,
        runtime_threads=1 if interface == "wsgi" else threads,
        runtime_mode=RuntimeModes(mode),
        loop=Loops.asyncio if interface == "wsgi" else Loops.uvloop,  # WSGI calls have no loop
        websockets=is_application(task),
        backlog=backlog,
        log_level=LogLevels.error,
        factory=True,
        **blocking,
    )
    try:
        server.serve()
    except FatalError as error:
        worker_ready.raise_failure()
        if (importer := own_gil.enabled_by()) is None:
            raise StartError(f"granian ended: {error}", "see its output above") from None
        what = "this Python was started with its GIL on"
        if importer != own_gil.FROM_THE_START:
            what = f"the import of {importer} switched the GIL on"
        remedy = "use another server, or python=3.13t-nogil"
        raise StartError(f"{what}, which granian's free-threaded build refuses", remedy) from None
    except SystemExit as error:
        worker_ready.raise_failure()
        if error.code:
            raise StartError("granian ended", "see its output above") from None
    worker_ready.raise_failure()


def _expected_reports(task: str, interface: str, workers: int) -> int:
    """Return how many workers report that they are ready.

    Without a GIL granian's workers are threads that share one application: it reports once. A
    user's ASGI application reports once per worker, since each worker runs its lifespan.
    """
    has_lifespans = interface == "asgi" and is_application(task)
    return workers if own_gil.enabled() or has_lifespans else 1
