"""The clock of requests on an event loop, of ASGI and of Tornado.

Besides their time and CPU time, the lag of the loop and the use of threads and pools are sampled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from offload.serving.metrics import loop_lag, pool_use, request_clock, stalls, thread_use
from offload.serving.metrics.request_clock import Cell, Request, Run


async def clock(
    application: Any,
    respond: Callable[[Request | None], Awaitable[None]],
    find_route: Callable[[], str],
) -> None:
    """Run a request to its end, which `respond` begins; its argument is None without a clock.

    `find_route` returns the method and the route when the request has ended.
    """
    loop_lag.note_request()
    cell, request = request_clock.enter()
    route = None
    try:
        if request is None:
            await respond(None)
            return
        (cell.limiter or _watch(cell, application)).find()
        await _Clocked(respond(request), request)
        route = find_route()
    except Exception as error:
        request_clock.note_error(error, request)
        route = find_route()
        raise
    finally:
        request_clock.leave(cell, request, route)


class _Clocked:
    """Run an awaitable as `await` does, and add the time of each of its runs to a request."""

    def __init__(self, awaitable: Awaitable[None], request: Request) -> None:
        self._awaitable = awaitable
        self._request = request
        self._run = Run(request)

    def __await__(self) -> Generator[Any, Any, None]:
        steps: Any = self._awaitable.__await__()
        step, value = steps.send, None
        while True:
            try:
                with self._run:
                    waits_for = step(value)
            except StopIteration:
                return
            try:
                value = yield waits_for
                step = steps.send
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 - pass it on, as `yield from` does
                step, value = steps.throw, error


def _watch(cell: Cell, application: Any) -> thread_use.Watch:
    """Sample the lag of this thread's event loop, and the use of threads and pools, from now on."""
    limiter = cell.limiter = thread_use.Watch()
    loop = asyncio.get_running_loop()
    thread_use.set_executor_threads(loop)
    thread_use.count_handovers(loop)

    def sample() -> None:
        limiter.sample()
        thread_use.sample_handovers()
        pool_use.sample(request_clock.count_inside(), loop, application)

    sample()
    loop_lag.watch(loop, on_sample=sample, count_inside=request_clock.count_inside)
    stalls.note_loop(loop)
    return limiter
