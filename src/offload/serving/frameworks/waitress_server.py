"""waitress in this process, on a socket that is bound before it starts."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from waitress import create_server, wasyncore

from offload.errors import StartError
from offload.registry.application import is_application
from offload.serving.applications import wsgi
from offload.serving.lifecycle import ports, readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.pools import pool_workers

QUIET = 0.05  # s without an event until connections are closed; a guess


def serve(
    task: str, create: Callable[[str], wsgi.Wsgi], port: int, backlog: int, threads: int
) -> None:
    """Serve a WSGI application until a stop signal; accepted and queued requests are finished."""
    is_users = is_application(task)
    if not is_users:
        pool_workers.import_task(task)
    application = create(task)
    logging.getLogger("waitress").setLevel(logging.ERROR)  # no warnings about its queue
    with ports.binding(port):
        listening = socket.create_server(("127.0.0.1", port), backlog=backlog)
    try:
        server = create_server(
            application,
            sockets=[listening],
            threads=threads,
            backlog=backlog,
            connection_limit=backlog,  # its default of 100 leaves further connections waiting
            asyncore_use_poll=True,  # select() has a limit of 1,024 files
        )
    except RuntimeError as error:
        what = f"{threads} workers do not start ({error})"
        raise StartError(what, "use fewer, workers=1") from error
    if not is_users:
        pool_workers.init_thread(threading.Barrier(threads))
        pool_workers.start(_Threads(server.task_dispatcher), threads, task)
    stop.set_callback(server.pull_trigger)  # wakes the loop
    readiness.announce(listening.getsockname()[1])
    while stop.at is None:
        _handle_events(server, server.adj.asyncore_loop_timeout)
    while _handle_events(server, QUIET) or _is_busy(server):
        continue
    server.close()


def _handle_events(server: Any, timeout: float) -> bool:
    """Wait at most `timeout` s for events and handle them; return whether there were any."""
    start = time.monotonic()
    wasyncore.loop(timeout=timeout, use_poll=True, map=server._map, count=1)
    return time.monotonic() - start < timeout


def _is_busy(server: Any) -> bool:
    """Whether a request is in a thread or in the queue, or a response is not sent."""
    channels = [*server.active_channels.values()]
    return any(channel.requests or channel.total_outbufs_len for channel in channels)


class _Threads(Executor):
    """waitress's threads as an executor, for the handshakes before the first request."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call in one of the threads."""
        call = _Call(function, args, kwargs)
        self._dispatcher.add_task(call)
        return call.future


class _Call:
    """A call as a task of waitress, which runs its `service`."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.future: Future[Any] = Future()
        self._call = partial(function, *args, **kwargs)

    def service(self) -> None:
        try:
            self.future.set_result(self._call())
        except BaseException as error:  # noqa: BLE001 - it is raised by the future
            self.future.set_exception(error)
