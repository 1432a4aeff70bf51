"""uvicorn in this process, and its workers: on a socket that is bound before it starts."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from offload.errors import Mendable, StartError
from offload.serving.lifecycle import ports, readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics import probe

QUIET = 0.05  # s without a new request before connections are closed; a guess
READY = 10.0  # s for all workers to import the application


def serve(
    application: Any,
    port: int,
    backlog: int,
    http: str = "httptools",
    within: AbstractAsyncContextManager[object] | None = None,
) -> None:
    """Serve an ASGI application in one process until a stop signal; what was accepted is answered.

    The loop is named, so that it is the same whatever else is installed. All of it is `within` a
    context of that loop, and what beginning it raises is raised.
    """
    with _bound(port, backlog) as listening:
        server = _Server(_config(application, backlog, http))
        server.within = within or contextlib.nullcontext()
        server.run([listening])
    if server.error is not None:
        raise server.error


def supervise(application: str, port: int, backlog: int, processes: int) -> None:
    """Serve `module:function`, which makes an ASGI application, in so many processes."""
    with _bound(port, backlog) as listening:
        config = _config(application, backlog, "httptools", workers=processes, factory=True)
        _Supervisor(config, [listening]).run()


def _config(application: Any, backlog: int, http: str, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=http,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        backlog=backlog,
        **more,
    )


@contextlib.contextmanager
def _bound(port: int, backlog: int) -> Iterator[socket.socket]:
    with ports.binding(port):
        # With its protocol named, as asyncio wants it to set TCP_NODELAY on what it accepts.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(backlog)
    with listening:
        yield listening


class _Server(uvicorn.Server):
    """Say when it listens; its stop signals are those of every server here, and lose nobody."""

    error: Mendable | None = None
    within: AbstractAsyncContextManager[object]

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        async with self.within:  # not in the lifespan: its errors would be tracebacks, too
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        stop.then(self._stop)
        try:
            readiness.announce(sockets[0].getsockname()[1])
        except Mendable as error:  # raised in here it would be a traceback of uvicorn's
            self.error, self.should_exit = error, True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def _stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what waits to be accepted, too: uvicorn itself resets what it has not read."""
        waiting = select.poll()
        for listening in sockets or []:
            waiting.register(listening, select.POLLIN)
        before = -1
        while before != self.server_state.total_requests or self._is_busy(waiting):
            before = self.server_state.total_requests
            await asyncio.sleep(QUIET)
        await super().shutdown(sockets)

    def _is_busy(self, waiting: select.poll) -> bool:
        return bool(self.server_state.tasks or waiting.poll(0))


class _Supervisor(Multiprocess):
    """Say when all workers serve; it takes the stop signals over, and hands them on."""

    def init_processes(self) -> None:
        super().init_processes()
        for process in self.processes:
            if not process.wait_until_ready(READY):
                self.terminate_all()
                raise StartError(f"a worker was not ready within {READY:.0f} s: see its own words")
        probe.facts["worker_pids"] = sorted(process.pid or 0 for process in self.processes)
        readiness.announce(self.sockets[0].getsockname()[1])
