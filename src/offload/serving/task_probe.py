"""Probe a task without a server: python -P -m offload.serving.task_probe TASK.

Each line on stdin is a JSON object {"kind": KIND, "count": N, "seconds": S}; the result is one line
of JSON on stdout. The kinds are `first` (one call) and `alone` (several) in the main thread, `kept`
(the same under a trace: which lines allocate what stays in use), `threads`, `processes`,
`interpreters` and `loop` (N concurrent calls on one event loop). If calls wait for others in the
queue of their own pool, the result is {"stall": ...} and the process exits. The output of the task
goes to stderr. The environment variables are those of `python -m offload.servers`.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from json import dumps, loads  # imported by name: a task may replace them in their module
from multiprocessing import forkserver
from pathlib import Path
from time import monotonic, thread_time  # imported by name: a task may replace them
from typing import Any, TextIO

from offload import resource_limits, tasks
from offload.errors import UserError
from offload.serving.lifecycle import calling, import_watch, readiness
from offload.serving.metrics import call_statistics, kept_memory, own_gil, probe, stalls
from offload.serving.metrics.call_statistics import CallStatistics, LoopClock
from offload.serving.pools import call_pools, pool_workers

FEWEST = 3  # calls of `alone`
NOTE_EVERY_S, NOTES = 0.25, 4  # notes of stacks, and how many show a pool that waits for itself
MOST_GROWTH_MIB = 512.0  # of the memory of `alone`: calls that leak would take all
MOST_TRACED_MIB = 64.0  # the same of `kept`: enough to see what stays
PREPARES = 2.0  # time of a first call over that of later ones, above which it prepares its process


def main(arguments: list[str]) -> int:
    """Execute commands until stdin ends; return the exit code."""
    requests, results = calling.begin()
    own_gil.watch_gil()
    task, start = arguments[0], _AsAtStart()
    # The workers share these modules, as those of a server do, and so need as little memory.
    forkserver.set_forkserver_preload(["offload.serving.task_probe"])
    forkserver.ensure_running()  # the task may change the environment
    try:
        _print(results, _facts(task))
        with ExitStack() as stack:
            probing = _Probing(task, stack, start)
            for line in requests:
                try:
                    with _watched(results):
                        found = probing.measure(**loads(line))
                    _print(results, found)
                except UserError as error:
                    _print(results, {"error": str(error), "exit_code": error.exit_code})
                except (MemoryError, OSError, RuntimeError) as error:
                    what = f"{type(error).__name__}: {error}"
                    limit = resource_limits.machine_error(what, error)
                    if limit is None:
                        raise
                    _print(results, {"error": str(limit), "exit_code": limit.exit_code})
    except UserError as error:
        readiness.fail(error)
        return error.exit_code
    return 0


def _print(results: TextIO, values: dict[str, Any]) -> None:
    results.write(f"{dumps(values)}\n")  # a task may replace `print`
    results.flush()


@contextmanager
def _watched(results: TextIO) -> Iterator[None]:
    """Print the pools that wait for themselves in the meantime, and end this process."""
    has_ended = threading.Event()

    def watch() -> None:
        for number in itertools.count(1):
            if has_ended.wait(NOTE_EVERY_S):
                return
            found = None
            with suppress(Exception):  # objects of the user may do anything
                stalls.note()
                found = stalls.report_waits(monotonic()) if number >= NOTES else None
            if found is not None:
                _print(results, {"stall": found})
                os._exit(1)  # its pools never end

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        has_ended.set()
        watching.join()
        stalls.forget()


def _facts(task: str) -> dict[str, Any]:
    """Import the task; return its facts before the first call."""
    address = own_gil.address_facts()  # no other thread computes yet
    with import_watch.watched(task, readiness.fail):
        tasks.resolve(task)
    return {**probe.identity(), **address, "gil_enabled": own_gil.enabled()}


class _AsAtStart:
    """Restore the initial sys.path and working directory while worker processes start.

    The workers inherit both. With the task's folder on sys.path they would import its queue.py
    instead of the standard library's. The task may also have changed the working directory.
    """

    def __init__(self) -> None:
        self._first = self._later = _path_and_folder()

    def __enter__(self) -> None:
        self._later = _path_and_folder()
        self._change(*self._first)

    def __exit__(self, *_: object) -> None:
        self._change(*self._later)

    def _change(self, path: list[str], folder: Path) -> None:
        sys.path[:] = path
        with suppress(OSError):  # it was removed
            os.chdir(folder)


def _path_and_folder() -> tuple[list[str], Path]:
    folder = Path()
    with suppress(OSError):  # it was removed
        folder = Path.cwd()
    return sys.path[:], folder


class _Probing:
    """The pools of a probe, each started when it is first used.

    All calls of a coroutine in the main thread run on the same event loop, as in a server: it may
    keep objects that belong to the loop, such as a client's connections. In other threads and
    processes each call has a loop of its own.
    """

    def __init__(self, task: str, stack: ExitStack, start: _AsAtStart) -> None:
        self._task = task
        self._stack = stack
        self._runner = stack.enter_context(asyncio.Runner())
        self._clock: LoopClock | None = None
        self._pools: dict[tuple[str, int], Executor] = {}
        self._start = start
        self._first_s = 0.0
        self._later_s: float | None = None

    def measure(self, kind: str, count: int, seconds: float) -> dict[str, Any]:
        """Measure calls of one kind; raise StartError if a pool does not start or is broken."""
        if kind == "first":  # it may prepare the process
            first = _summary([self._calls(0.0)])
            self._first_s = first["wall_s"]
            first["is_coroutine"] = tasks.is_coroutine(self._task)
            return {**first, "is_json": tasks.returns_json(self._task)}
        if kind == "alone":
            alone = _summary([self._calls(seconds, FEWEST, MOST_GROWTH_MIB)])
            self._later_s = alone["wall_s"]
            return alone
        if kind == "kept":
            kept_memory.trace()
            calls = self._calls(seconds, 1, MOST_TRACED_MIB)
            return {"done": calls.done, **kept_memory.end_trace()}
        if kind == "loop":
            return self._on_loop(count, seconds)
        pool = self._pool(kind, count)
        call = partial(call_statistics.calls, self._task, seconds)
        cpu = call_statistics.cpu_time()
        found = call_pools.results(pool, call, count, self._task)
        if kind == "threads":  # each thread has counted the CPU time of the whole process
            _share(found, call_statistics.cpu_time() - cpu)
        return _summary(found)

    def _calls(self, seconds: float, least: int = 1, most_mib: float = math.inf) -> CallStatistics:
        return call_statistics.calls(self._task, seconds, least, self._runner.run, most_mib)

    def _on_loop(self, count: int, seconds: float) -> dict[str, Any]:
        async def run() -> list[CallStatistics]:
            started = monotonic()
            calls = [
                call_statistics.acalls(self._task, seconds, started, least=int(user == 0))
                for user in range(count)
            ]
            return await asyncio.gather(*calls)

        clock = self._clock = self._clock or LoopClock(self._runner.get_loop())
        cpu, own_cpu, running = call_statistics.cpu_time(), thread_time(), clock.running_s()
        found = self._runner.run(run())
        running_s, own_cpu_s = clock.running_s() - running, thread_time() - own_cpu
        _share(found, call_statistics.cpu_time() - cpu)
        # While one user's result is checked, all users wait.
        checking_s = sum(each.checking_s for each in found)
        calling_share = 1 - checking_s / max(each.wall_s for each in found)
        for each in found:
            each.wall_s *= calling_share
        summary = _summary(found)
        on_loop_s = max(0.0, max(running_s, own_cpu_s) - checking_s) / summary["done"]
        return {**summary, "on_loop_s": on_loop_s if clock.is_known else None}

    def _pool(self, kind: str, count: int) -> Executor:
        if (kind, count) not in self._pools:
            with self._start:
                pool = self._stack.enter_context(call_pools.create(kind, count))
                pool_workers.start(pool, count, self._task)
            if kind != "threads" and self._prepares:
                first_call = partial(pool_workers.first_call, self._task)
                call_pools.results(pool, first_call, count, self._task)
            self._pools[kind, count] = pool
        return self._pools[kind, count]

    @property
    def _prepares(self) -> bool:
        """Whether the first call of a process takes longer than later ones, or may do so."""
        return self._later_s is None or self._first_s > PREPARES * self._later_s


def _share(found: Sequence[CallStatistics], cpu_s: float) -> None:
    """Divide the CPU time of a process among its workers, without that of the checksums."""
    cpu_s -= sum(each.checking_cpu_s for each in found)
    for each in found:
        each.cpu_s = cpu_s / len(found)


def _summary(found: Sequence[CallStatistics]) -> dict[str, Any]:
    """Return the sums over all workers, and calls per second."""
    done = sum(each.done for each in found)
    return {
        **asdict(found[0]),
        "done": done,
        "failed": sum(each.failed for each in found),
        "error": next((each.error for each in found if each.error), None),
        "rate": sum(each.done / each.wall_s for each in found),
        "wall_s": sum(each.wall_s for each in found) / done,
        "cpu_s": sum(each.cpu_s for each in found) / done,
        "queued_s": sum(each.queued_s for each in found) / done,
        "switches": sum(each.switches for each in found) / done,
        "times": [seconds for each in found for seconds in each.times],
        "checksums": sorted({checksum for each in found for checksum in each.checksums}),
        "gil_enabled": own_gil.enabled(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
