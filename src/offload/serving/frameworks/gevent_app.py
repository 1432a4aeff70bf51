"""The application in a gevent worker: each request is a greenlet, and all share one thread.

Only the workers import this module: their standard library is patched.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from functools import cache, partial
from typing import Any

import gevent

from offload.registry.catalog import is_application
from offload.serving.applications import wsgi
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import process_report, task_clock


def application() -> wsgi.Wsgi:
    """Create the application in a worker, which imports the task and then reports."""
    task = os.environ[worker_ready.TASK]
    if is_application(task):
        return wsgi.application()
    created = wsgi.Application(task, partial(task_clock.call, run=_run))
    process_report.start()
    worker_ready.report()
    return created


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the worker's event loop while other greenlets run.

    asyncio.run would fail in a second greenlet, since a thread can have only one running loop.
    """
    result, error = asyncio.run_coroutine_threadsafe(_catch(coroutine), _loop()).result()
    if error is not None:
        raise error
    return result


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Start the event loop of this worker, in a greenlet of its own."""
    loop = asyncio.new_event_loop()
    gevent.spawn(loop.run_forever)
    return loop


async def _catch(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Return the result and the error. Do not raise it: SystemExit would end the loop."""
    try:
        return await coroutine, None
    except BaseException as error:  # noqa: BLE001 - it is raised in the caller
        return None, error
