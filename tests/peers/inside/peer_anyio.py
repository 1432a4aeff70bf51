"""Run anyio's tests of its worker processes on a pool of ours, one for each event loop."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from peer_pool import PipePool

_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, PipePool] = weakref.WeakKeyDictionary()


async def run_sync(
    func: Callable[..., Any], *args: Any, cancellable: bool = False, limiter: object = None
) -> Any:
    """Run a function in the pool of this loop; a call that is not cancellable is waited for."""
    if func is eval:  # which sees the names of its caller: one of anyio's own functions
        func = _evaluate
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)  # where a scope that is cancelled already ends it
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = PipePool(1)
        await pool.start()
    call = pool.run(func, *args, kill_on_cancel=cancellable)
    return await (call if cancellable else asyncio.shield(call))


def _evaluate(expression: str) -> Any:
    return eval(expression, {"sys": sys})


def install() -> None:
    """Leave the interpreters as they are: only the tests themselves call anyio."""


def pytest_configure(config: pytest.Config) -> None:
    from anyio import to_process

    to_process.run_sync = run_sync
    config.addinivalue_line("markers", "anyio: an asynchronous test")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if "[trio" not in item.name]


@pytest.fixture(autouse=True)
async def close_pool(anyio_backend: Any) -> AsyncIterator[None]:
    """Close the pool of the test's loop."""
    yield
    pool = _pools.pop(asyncio.get_running_loop(), None)
    if pool is not None:
        await pool.close()
