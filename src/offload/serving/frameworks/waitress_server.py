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
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser

from offload.errors import StartError
from offload.registry.catalog import is_application
from offload.serving.applications import wsgi
from offload.serving.lifecycle import drain, readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.pools import pool_workers


def serve(
    task: str, create: Callable[[str], wsgi.Wsgi], port: int, backlog: int, threads: int
) -> None:
    """Serve a WSGI application until a stop signal; accepted and queued requests are finished."""
    is_users = is_application(task)
    if not is_users:
        pool_workers.import_task(task)
    application = create(task)
    logging.getLogger("waitress").setLevel(logging.ERROR)  # no warnings about its queue
    with readiness.binding(port):
        listening = socket.create_server((readiness.address(), port), backlog=backlog)
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
    server.channel_class = _Channel
    stop.set_callback(server.pull_trigger)  # wakes the loop
    readiness.announce(listening.getsockname()[1])
    while stop.at is None:
        _handle_events(server, server.adj.asyncore_loop_timeout)
    _drain(server, listening, backlog)
    server.close()


def _drain(server: Any, listening: socket.socket, backlog: int) -> None:
    """Accept queued connections, close the listener, and finish the accepted requests."""
    drain.refuse_new(listening)
    for _ in range(backlog + 1):  # waitress accepts one connection per loop iteration
        if not drain.is_waiting(listening):
            break
        _handle_events(server, 0)
    wasyncore.dispatcher.close(server)  # the listener only: threads still use the trigger
    sent_by = None
    while True:
        had_event = _handle_events(server, drain.QUIET)
        channels = [*server.active_channels.values()]
        if any(channel.requests for channel in channels):  # in a thread or in the queue
            sent_by = None
            continue
        sent_by = sent_by or time.monotonic() + drain.SENDING
        is_unsent = any(channel.total_outbufs_len for channel in channels)
        if not (had_event or is_unsent) or time.monotonic() > sent_by:
            return


class _Parser(HTTPRequestParser):
    """A parser that lets the connection end with the response while the server drains."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if stop.at is not None:
            self.headers["CONNECTION"] = "close"


class _Channel(HTTPChannel):
    """A connection of waitress with that parser."""

    parser_class = _Parser


def _handle_events(server: Any, timeout: float) -> bool:
    """Wait at most `timeout` s for events and handle them; return whether there were any."""
    start = time.monotonic()
    wasyncore.loop(timeout=timeout, use_poll=True, map=server._map, count=1)
    return time.monotonic() - start < timeout


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
