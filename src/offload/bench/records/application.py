"""What a record knows of a user's application: its clocks, its threads and its memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """The clocked requests of one route: means in s.

    `inside_s` is the time from the application's call to the end of its response. `cpu_s` is the
    CPU time of the thread that called it: of an ASGI application only that on the event loop.
    `run_s` is the longest time that a request ran there without a pause, for which it blocked the
    loop of an ASGI application; `longest_s` is the longest of all requests.
    """

    route: str
    requests: int
    inside_s: float | None = None
    cpu_s: float | None = None
    run_s: float | None = None
    longest_s: float | None = None


@dataclass(frozen=True)
class ThreadLimit:
    """The use of anyio's threads, in which Starlette and FastAPI run `def` endpoints.

    It is unknown for an application that does not use anyio.
    Of `total` threads at most `used` were in use, and at most `waiting` calls waited for one.
    `full` is the share of time in which all were in use. All are of the process with most of it.
    """

    total: int | None = None
    used: int | None = None
    waiting: int | None = None
    full: float | None = None


@dataclass(frozen=True)
class Application:
    """The reports of the `processes` that serve a user's application of a `kind`: asgi or wsgi.

    `requests` is the number of clocked requests, at most one a millisecond in each process, with
    means as in `Route`. `inside_most` is the most requests inside one process at once.
    `asyncio_threads` are those of `asyncio.to_thread`. `worker_pss_mib` is the memory of the
    largest process, and `worker_private_mib` the part that it shares with no other. `error` is the
    last exception that left the application, with its file and line. None is unknown.
    """

    kind: str | None = None
    processes: int | None = None
    requests: int | None = None
    inside_s: float | None = None
    cpu_s: float | None = None
    inside_most: int | None = None
    routes: tuple[Route, ...] = ()
    limiter: ThreadLimit = ThreadLimit()
    anyio_threads: int | None = None
    asyncio_threads: int | None = None
    worker_pss_mib: float | None = None
    worker_private_mib: float | None = None
    error: str | None = None
