"""The report of one of several server processes, or of one that serves a user's application.

Each of these processes listens on a socket in Linux's abstract namespace, named by its pid. So the
report needs no route in the application, and every process reports for itself, whichever process
accepts the connections. Other systems have no report.
"""

from __future__ import annotations

import _tracemalloc
import inspect
import os
import struct
import sys
import threading
from _thread import start_new_thread  # imported here: gevent replaces it later
from collections.abc import Iterator
from contextlib import suppress
from json import dumps, loads  # imported by name: a task may replace them
from socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, SOL_SOCKET, socket
from time import sleep  # as above
from typing import Any

from offload.serving.metrics import (
    blas_threads,
    forked_threads,
    kept_memory,
    loop_lag,
    memory,
    own_gil,
    pool_use,
    probe,
    request_clock,
    stalls,
    task_clock,
    thread_use,
    tracer,
)

SO_PEERCRED = 17  # of Linux; the module socket has it only there
TIMEOUT = 2.0  # s for a client to send its window
PAUSE = 0.1  # s until the next attempt while no connection can be accepted; a guess
_listening: int | None = None  # the pid that listens: a forked child must do so itself
_facts: dict[str, Any] = {}
_application: object = None  # the user's, if this process serves an ASGI application
_parent: int | None = None  # the pid that creates the application for its children


def leave_to_children() -> None:
    """Do not listen in this process: its forked children serve."""
    global _parent
    _parent = os.getpid()
    forked_threads.watch()


def start_in_child() -> None:
    """Listen in a forked child, if its parent created an application for it."""
    if "kind" in _facts:
        memory.note_fork()
        start(_facts["kind"], _application)


def start(kind: str | None = None, application: object = None) -> None:
    """Listen in this process; call it once, before it serves.

    `kind` is that of the user's `application` that it serves; None: it runs tasks.
    """
    global _application, _listening
    _facts["kind"], _application = kind, application
    if kind is not None:
        memory.freeze()
        memory.watch_collections()
        request_clock.watch_log()
    if sys.platform != "linux" or os.getpid() in (_listening, _parent):
        return
    _listening = os.getpid()
    _facts.update(pid=_listening, **own_gil.address_facts())
    server = socket(AF_UNIX, SOCK_STREAM)
    try:
        server.bind(name(_listening))
        server.listen()
    except OSError:  # a sandbox without such sockets: then there is no report
        server.close()
        return
    start_new_thread(_answer, (server,))


def name(pid: int) -> str:
    """Return the address of a process's socket."""
    return f"\0offload-application-{pid}"


def report(
    start: float, end: float, with_each: bool = False, with_stacks: bool = False
) -> dict[str, Any]:
    """Return this process's figures in a window, in seconds of CLOCK_MONOTONIC.

    `with_stacks` adds where its threads and tasks are, to explain failed requests.
    """
    memory.freeze()
    probe.note_gil(own_gil.enabled_by())
    state = {key: probe.facts.get(key) for key in ("gil_enabled", "gil_enabled_by")}
    found = {**_facts, **state, **loop_lag.between(start, end)}
    if _facts["kind"] is None:
        found |= task_clock.between(start, end)
        return found | ({"each": task_clock.each(start, end)} if with_each else {})
    pools = pool_use.between(start, end)
    of_request = pool_use.find_thread_of_request(pools)
    found |= {
        **request_clock.between(start, end),
        **thread_use.threads(),
        "limiter": thread_use.between(start, end),
        "pools": None if pools is None else [each for each in pools if each is not of_request],
        "of_request": of_request,
        "handovers": thread_use.handovers_between(start, end),
        "memory": probe.memory_of(os.getpid()),
        "lost_threads": forked_threads.lost(),
        "alive_threads": forked_threads.count_alive(),
        "beside_stuck_children": forked_threads.beside_stuck_children(),
        "forks": forked_threads.forks_between(start, end),
        "forked_at": forked_threads.forked_at(),
        "blas": blas_threads.since(start),
        "collector": memory.collections_between(start, end),
        "malloc": memory.malloc_figures(),
        "layers": count_layers(_application),
        "debug_tools": list_debug_tools(),
    }
    stall = stalls.report(end) if with_stacks else stalls.report_waits(end, with_orphaned=True)
    if stall is not None:
        found["stall"] = stall
    if with_stacks and (ended := stalls.find_ended_task()) is not None:
        found["error"] = f"{found['error']}; {ended}" if found["error"] else ended
    if with_each:
        found["each"] = request_clock.each(start, end)
        found["awaited"] = stalls.awaited(start, end)
        found["endpoints"] = [*list_endpoints(_application)]
    stalls.forget()
    return found


def _answer(server: socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # a limit, for example of open files: the connection stays in the queue
            sleep(PAUSE)
            continue
        with connection:
            connection.settimeout(TIMEOUT)
            with suppress(Exception):  # objects of the user may do anything
                _respond(connection)
            with suppress(OSError):  # a request that forks keeps a copy, which would remain open
                connection.shutdown(SHUT_RDWR)


def _respond(connection: socket) -> None:
    if not _is_same_user(connection):
        return
    request = loads(connection.recv(1000))
    tracer.update()
    if "note" in request:
        stalls.note()
        return
    if request.get("trace") is True:
        kept_memory.trace()
        connection.sendall(b"{}")
        return
    if "trace" in request:
        connection.sendall(dumps(kept_memory.end_trace()).encode())
        return
    with_stacks = request.get("with_stacks", False)
    values = report(request["from"], request["to"], request["each"], with_stacks)
    connection.sendall(dumps(values).encode())


def _is_same_user(connection: socket) -> bool:
    credentials = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())


# What the functions of an application are. Starlette and FastAPI call `def` functions in threads,
# where the stack does not show it.


ROUTE, DEPENDENCY = "route", "dependency"
DEEPEST = 20  # applications inside each other


def list_endpoints(application: Any, depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield the file, the name and the kind of each function of an application."""
    if depth > DEEPEST:
        return
    routes = getattr(application, "routes", None)
    for route in routes if isinstance(routes, list) else ():
        yield from _places([getattr(route, "endpoint", None)], ROUTE)
        dependant = getattr(route, "dependant", None)
        yield from _places(_dependencies(dependant, depth), DEPENDENCY)
        yield from list_endpoints(route, depth + 1)
    inner = getattr(application, "app", None)
    if routes is None and inner is not None:  # a middleware around the application
        yield from list_endpoints(inner, depth + 1)


def count_layers(application: Any) -> int:
    """Return how many layers of Starlette's BaseHTTPMiddleware each request passes through."""
    count = 0
    for _ in range(DEEPEST):
        added = getattr(application, "user_middleware", None)
        kinds = [getattr(each, "cls", None) for each in added] if isinstance(added, list) else []
        count += sum(map(_is_layer, [type(application), *kinds]))
        if added is not None or (application := getattr(application, "app", None)) is None:
            break
    return count


def list_debug_tools() -> list[str]:
    """Return the tools of developers that are switched on in this process."""
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    used = []
    for number in range(6) if monitoring is not None else ():
        if (name := monitoring.get_tool(number)) and monitoring.get_events(number):
            used.append(name)
    states = {
        "tracemalloc": _tracemalloc.is_tracing(),
        "a tracer (threading.settrace)": threading.gettrace() is not None,
        "a profiler (threading.setprofile)": threading.getprofile() is not None,
        **{f"{name} (sys.monitoring)": True for name in used},
        "asyncio's debug mode": any(loop.get_debug() for loop in stalls.loops()),
    }
    return [name for name, is_on in states.items() if is_on]


def _is_layer(kind: Any) -> bool:
    names = [(each.__module__, each.__name__) for each in getattr(kind, "__mro__", ())]
    return ("starlette.middleware.base", "BaseHTTPMiddleware") in names


def _dependencies(dependant: Any, depth: int) -> Iterator[Any]:
    found = getattr(dependant, "dependencies", None)
    for each in found if isinstance(found, list) and depth <= DEEPEST else ():
        yield getattr(each, "call", None)
        yield from _dependencies(each, depth + 1)


def _places(functions: list[Any] | Iterator[Any], kind: str) -> Iterator[tuple[str, str, str]]:
    for each in functions:
        code = getattr(inspect.unwrap(each) if callable(each) else None, "__code__", None)
        if inspect.iscode(code):
            yield code.co_filename, code.co_name, kind
