"""Direct calls of a task, without a server: python -m offload.serving.direct_calls TASK WORKERS.

Each line on stdin is `threads N SECONDS`, `processes N SECONDS` or `interpreters N SECONDS`, with N
up to WORKERS; the answer is one line of JSON on stdout. Every worker calls the task again and again
on its own, so nothing but the calls is measured: no hop, no HTTP. What it takes from the bench's
environment is what `python -m offload.servers` takes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from threading import Barrier

from offload.errors import MachineError, Mendable
from offload.serving.lifecycle import readiness
from offload.serving.metrics import gil_state, probe, sequential_calls
from offload.serving.pools import pool_workers
from offload.serving.pools.pipe_barrier import PipeBarrier


def main(words: list[str]) -> int:
    """Serve commands until stdin ends; return the exit code."""
    gil_state.watch()
    task, workers = words[0], int(words[1])
    probe.facts.update(probe.identity(), task=task, workers=workers)
    pools: dict[str, Executor] = {}
    try:
        with ExitStack() as stack:
            for kind in ("processes", "threads"):
                pools[kind] = _begun(kind, task, workers, stack)
            _say(probe.facts)
            for line in sys.stdin:
                kind, count, seconds = line.split()
                try:
                    if kind not in pools:
                        pools[kind] = _begun(kind, task, workers, stack)
                    _say(_together(pools[kind], task, int(count), float(seconds)))
                except Mendable as error:
                    _say({"error": str(error)})
    except Mendable as error:
        readiness.fail(error)
        return error.exit_code
    return 0


def _say(values: dict[str, object]) -> None:
    print(json.dumps(values), flush=True)


def _begun(kind: str, task: str, workers: int, stack: ExitStack) -> Executor:
    """Begin a pool whose workers have imported the task; raise what that raised."""
    executor = stack.enter_context(POOLS[kind](workers))
    pool_workers.start(executor, workers, task)
    return executor


def _processes(workers: int) -> Executor:
    context = get_context("forkserver")
    return ProcessPoolExecutor(workers, context, pool_workers.begin, (context.Barrier(workers),))


def _threads(workers: int) -> Executor:
    return ThreadPoolExecutor(workers, "worker", pool_workers.share, (Barrier(workers),))


def _interpreters(workers: int) -> Executor:
    if sys.version_info < (3, 14):
        raise MachineError("interpreters need Python 3.14")
    from concurrent.futures import InterpreterPoolExecutor  # type: ignore[attr-defined] # 3.14

    begin = partial(pool_workers.share, PipeBarrier.of(workers))
    pool: Executor = InterpreterPoolExecutor(workers, "worker", begin)
    return pool


POOLS: dict[str, Callable[[int], Executor]] = {
    "processes": _processes,
    "threads": _threads,
    "interpreters": _interpreters,
}


def _together(pool: Executor, task: str, count: int, seconds: float) -> dict[str, object]:
    """Have `count` workers call for `seconds`; give calls a second and the means of one call.

    Times in s: `wall_s` from begin to end, `cpu_s` on a CPU, `queued_s` ready but waiting for one.
    """
    # A partial is pickled by its name, which other interpreters need.
    loops = [pool.submit(partial(sequential_calls.calls, task, seconds)) for _ in range(count)]
    found = [loop.result() for loop in loops]
    calls = sum(done for done, *_ in found)
    return {
        "rate": sum(done / wall for done, wall, *_ in found),
        "wall_s": sum(wall for _, wall, *_ in found) / calls,
        "cpu_s": sum(cpu for _, _, cpu, _, _ in found) / calls,
        "queued_s": sum(queued for _, _, _, queued, _ in found) / calls,
        "switches": sum(switches for *_, switches in found) / calls,
        "gil_enabled": gil_state.enabled(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
