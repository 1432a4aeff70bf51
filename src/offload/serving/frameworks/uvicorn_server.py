"""uvicorn in this process or in workers, on a socket that is bound before it starts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from offload.errors import StartError, UserError
from offload.serving.applications import asgi, user_worker
from offload.serving.lifecycle import drain, parent_watch, readiness, worker_ready
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics import probe, thread_use

POLL = 0.01  # s
NAME = "SERVER_NAME"  # the variable with the server's name for supervised processes


def serve(
    application: Any,
    port: int,
    backlog: int,
    http: str = "httptools",
    within: AbstractAsyncContextManager[object] | None = None,
) -> None:
    """Serve an ASGI application in one process until a stop signal; accepted requests are finished.

    The event loop is set by name, so that it does not depend on installed packages. The server
    runs inside the context manager `within` on that loop; errors on entering it are raised.
    """
    with _bound(port, backlog) as listening:
        server = _Server(_config(application, backlog, http))
        server.within = within or contextlib.nullcontext()
        try:
            server.run([listening])
        except SystemExit:  # the lifespan of the application failed
            server.error = server.error or StartError("uvicorn ended", "see its output above")
        worker_ready.raise_failure()
    if server.error is not None:
        raise server.error


def supervise(application: str, port: int, backlog: int, processes: int) -> None:
    """Serve `module:function`, which creates an ASGI application, in `processes`."""
    with _bound(port, backlog) as listening:
        config = _config(application, backlog, "httptools", workers=processes, factory=True)
        _Supervisor(config, [listening]).run()


def supervise_task(
    task: str,
    port: int,
    backlog: int,
    processes: int,
    application: str = f"{__name__}:task_application",
    tokens: int = 0,
) -> None:
    """Serve any task in `processes`; `application` creates its application in each.

    `tokens` is the number of anyio's threads in each; 0: as many as the application wants.
    """
    user_worker.check(task)
    if tokens:
        os.environ[thread_use.TOKENS] = str(tokens)
    os.environ[worker_ready.TASK], os.environ[NAME] = task, str(probe.facts["server"])
    with worker_ready.folder_of_failures():
        supervise(application, port, backlog, processes)


def task_application() -> asgi.Asgi:
    """Create the application of a supervised process."""
    return user_worker.create(asgi.create, join_supervisor())


def join_supervisor() -> str:
    """End this process with its supervisor, report errors to it, and return the task to serve."""
    parent_watch.start()
    probe.join_counts()
    readiness.report_errors_by(worker_ready.fail)
    task = os.environ[worker_ready.TASK]
    probe.facts.update(probe.identity(), server=os.environ[NAME], task=task)
    return task


def _config(application: Any, backlog: int, http: str, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=http,
        loop="uvloop",
        **asgi.protocols(str(probe.facts.get("task"))),
        log_level="warning",
        access_log=False,
        backlog=backlog,
        **more,
    )


@contextlib.contextmanager
def _bound(port: int, backlog: int) -> Iterator[socket.socket]:
    with readiness.binding(port):
        # The protocol is explicit: otherwise asyncio sets no TCP_NODELAY on accepted sockets.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((readiness.address(), port))
        listening.listen(backlog)
    with listening:
        yield listening


class _Server(uvicorn.Server):
    """A uvicorn server that announces readiness and drains on this project's stop signals."""

    error: UserError | None = None
    within: AbstractAsyncContextManager[object]

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        async with self.within:  # not in the lifespan, whose errors are printed as tracebacks
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.lifespan.should_exit:  # the lifespan of the application failed, in older uvicorn
            return
        assert sockets is not None
        stop.set_callback(self._stop)
        try:
            readiness.announce(sockets[0].getsockname()[1])
        except UserError as error:  # not raised here: uvicorn would print a traceback
            self.error, self.should_exit = error, True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def _stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain first: uvicorn alone would reset queued connections and wait for slow clients."""
        quiet_s = drain.QUIET
        for listening in sockets or []:
            drain.refuse_new(listening)
            quiet_s = max(quiet_s, await drain.accept_waiting(listening, self.config.backlog))
        for each in (*self.servers, *(sockets or [])):
            each.close()
        state = self.server_state
        state.default_headers = [*state.default_headers, (b"connection", b"close")]
        for connection in [*state.connections]:
            if not hasattr(connection, "cycle"):  # a WebSocket, which has no end of its own
                connection.shutdown()
        await drain.wait_until_quiet(
            lambda: state.total_requests, lambda: bool(state.tasks), quiet_s
        )
        await self._close_connections()
        await super().shutdown(sockets)

    async def _close_connections(self) -> None:
        """Close all connections, those of slow clients after a short time."""
        for connection in [*self.server_state.connections]:
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain.SENDING):
                while self.server_state.connections:
                    await asyncio.sleep(POLL)
        for connection in [*self.server_state.connections]:
            connection.transport.abort()


class _Supervisor(Multiprocess):
    """A supervisor that announces readiness once all workers serve, and limits their drain."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        stop.listen_again()
        stop.set_callback(lambda: self.signal_queue.append(signal.SIGTERM))

    def terminate_all(self) -> None:
        for listening in self.sockets:
            drain.refuse_new(listening)
        super().terminate_all()

    def init_processes(self) -> None:
        super().init_processes()
        for process in self.processes:
            if not process.wait_until_ready(readiness.LIMIT):
                self.terminate_all()
                worker_ready.raise_failure()
                late = f"a worker was not ready within {readiness.LIMIT:.0f} s"
                raise StartError(late, "see its output")
        probe.facts["worker_pids"] = sorted(process.pid or 0 for process in self.processes)
        try:
            readiness.announce(self.sockets[0].getsockname()[1])
        except UserError:
            self.terminate_all()  # else multiprocessing waits for them when this process exits
            raise
