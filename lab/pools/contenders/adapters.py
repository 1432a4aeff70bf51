"""The contenders of the benchmark: adapters that call each pool from an event loop."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
from collections.abc import Awaitable, Callable
from concurrent import futures
from typing import Any

from pipepool import PipeExecutor, PipePool

Call = Callable[..., Any]
GUNICORN_DIRTY = "lab.pools.contenders.gunicorn_dirty"  # needs gunicorn


class Standard:
    """Any concurrent.futures.Executor, called by the loop's `run_in_executor`."""

    def __init__(self, make: Callable[[int], futures.Executor]) -> None:
        self._make = make

    async def start(self, workers: int) -> None:
        self._executor = self._make(workers)

    def run(self, function: Call, *args: object) -> Awaitable[object]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._executor, function, *args)

    async def close(self) -> None:
        self._executor.shutdown()


class Pipes:
    """PipePool."""

    async def start(self, workers: int) -> None:
        self._pool = PipePool(workers)
        await self._pool.start()

    def run(self, function: Call, *args: object) -> Awaitable[object]:
        return self._pool.run(function, *args)

    async def close(self) -> None:
        await self._pool.close()


class PipesZeroCopyArgs(Pipes):
    """PipePool whose workers receive views of large arguments."""

    def run(self, function: Call, *args: object) -> Awaitable[object]:
        return self._pool.run(function, *args, zero_copy_args=True)


class PipesZeroCopyResult(Pipes):
    """PipePool that returns views of large results, which are released at once."""

    async def run(self, function: Call, *args: object) -> object:
        result = await self._pool.run(function, *args, zero_copy_result=True)
        if isinstance(result, memoryview):
            result.release()
        return None


class Anyio:
    """anyio's threads or processes, with as many tokens as workers."""

    def __init__(self, module: str) -> None:
        self._module = importlib.import_module(f"anyio.{module}")

    async def start(self, workers: int) -> None:
        self._limiter = importlib.import_module("anyio").CapacityLimiter(workers)

    def run(self, function: Call, *args: object) -> Awaitable[object]:
        found: Awaitable[object] = self._module.run_sync(function, *args, limiter=self._limiter)
        return found

    async def close(self) -> None:
        """Do nothing: anyio stops its workers with the loop."""


class Multiprocessing:
    """multiprocessing.Pool, which runs callbacks in one of its own threads."""

    async def start(self, workers: int) -> None:
        self._pool = multiprocessing.get_context("forkserver").Pool(workers)

    def run(self, function: Call, *args: object) -> Awaitable[object]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()

        def done(result: object) -> None:
            loop.call_soon_threadsafe(future.set_result, result)

        def failed(error: BaseException) -> None:
            loop.call_soon_threadsafe(future.set_exception, error)

        self._pool.apply_async(function, args, {}, done, failed)
        return future

    async def close(self) -> None:
        self._pool.terminate()
        self._pool.join()


class Pebble:
    """pebble.ProcessPool, whose futures are those of the standard library."""

    async def start(self, workers: int) -> None:
        context = multiprocessing.get_context("forkserver")
        self._pool = importlib.import_module("pebble").ProcessPool(workers, context=context)

    def run(self, function: Call, *args: object) -> Awaitable[object]:
        return asyncio.wrap_future(self._pool.schedule(function, args))

    async def close(self) -> None:
        self._pool.close()
        self._pool.join()


def _processes(method: str) -> Callable[[int], futures.Executor]:
    return lambda workers: futures.ProcessPoolExecutor(workers, multiprocessing.get_context(method))


def _standard(module: str, name: str) -> Standard:
    return Standard(getattr(importlib.import_module(module), name))


# In the order in which they are started, each in its own process.
CONTENDERS: dict[str, Callable[[], Any]] = {
    "process fork": lambda: Standard(_processes("fork")),
    "process": lambda: Standard(_processes("forkserver")),
    "process spawn": lambda: Standard(_processes("spawn")),
    "PipePool": Pipes,
    "PipePool zero_copy_result": PipesZeroCopyResult,
    "PipePool zero_copy_args": PipesZeroCopyArgs,
    "PipeExecutor": lambda: Standard(PipeExecutor),
    "thread": lambda: Standard(futures.ThreadPoolExecutor),
    "interpreter": lambda: _standard("concurrent.futures", "InterpreterPoolExecutor"),
    "anyio thread": lambda: Anyio("to_thread"),
    "anyio process": lambda: Anyio("to_process"),
    "loky": lambda: _standard("loky.process_executor", "ProcessPoolExecutor"),
    "multiprocessing.Pool": Multiprocessing,
    "pebble": Pebble,
    "gunicorn dirty": lambda: importlib.import_module(GUNICORN_DIRTY).Pool(),
}
