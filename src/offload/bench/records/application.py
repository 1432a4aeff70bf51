"""The figures of a user's application in a record: its times, its threads and its memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """The requests of one route whose times were measured: means in s.

    `inside_s` is the time from the call of the application to the end of its response. `cpu_s` is
    the CPU time of the calling thread; for an ASGI application this is only the time on the event
    loop. `run_s` is the longest time that a request ran on this thread without a pause; an ASGI
    application blocks its event loop for so long. `longest_s` is the maximum of `run_s`.
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

    `used` is the maximum number of its `total` threads that were in use, and `waiting` the maximum
    number of calls that waited for a thread. `full` is the share of time in which all threads were
    in use. The values are those of the process with the highest `full`. None is unknown, also if
    the application does not use anyio.
    """

    total: int | None = None
    used: int | None = None
    waiting: int | None = None
    full: float | None = None


@dataclass(frozen=True)
class Application:
    """The reports of the `processes` that serve a user's application of a `kind`: asgi or wsgi.

    `requests` is the number of requests whose times were measured, at most about 1,000 per second
    and process; `inside_s` and `cpu_s` are their means as in `routes`. `inside_most` is the maximum
    number of concurrent requests in one process. `asyncio_threads` are those of
    `asyncio.to_thread`. `worker_pss_mib` is the memory of the largest process, and
    `worker_private_mib` the largest memory that a process does not share. `error` is the last
    unhandled exception of the application, with its file and line. None is unknown.
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
