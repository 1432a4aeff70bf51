"""Call a task without a server: python -m offload.serving.direct_calls TASK WORKERS.

Each line on stdin is `threads N SECONDS`, `processes N SECONDS` or `interpreters N SECONDS`, with N
up to WORKERS; the result is one line of JSON on stdout. Whatever the task itself prints goes to
stderr. Each worker calls the task repeatedly, so only the calls are measured, without the transfer
of tasks to workers and without HTTP. The environment variables are those of
`python -m offload.servers`.
"""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from json import dumps  # imported by name: a task may replace it in its module
from typing import TextIO

from offload.errors import UserError
from offload.serving.lifecycle import calling, readiness
from offload.serving.metrics import call_statistics, own_gil, probe
from offload.serving.pools import call_pools, pool_workers
from offload.tasks import TaskFailed


def main(arguments: list[str]) -> int:
    """Execute commands until stdin ends; return the exit code."""
    requests, results = calling.begin()
    own_gil.watch_gil()
    task, workers = arguments[0], int(arguments[1])
    probe.facts.update(probe.identity(), task=task, workers=workers)
    pools: dict[str, Executor] = {}
    try:
        with ExitStack() as stack:
            for kind in ("processes", "threads"):
                pools[kind] = _start_pool(kind, task, workers, stack)
            _print(results, probe.facts)
            for line in requests:
                kind, count, seconds = line.split()
                try:
                    if kind not in pools:
                        pools[kind] = _start_pool(kind, task, workers, stack)
                    found = _measure(pools[kind], task, int(count), float(seconds))
                    _print(results, found)
                except (UserError, TaskFailed) as error:
                    _print(results, {"error": str(error)})
    except UserError as error:
        readiness.fail(error)
        return error.exit_code
    return 0


def _print(results: TextIO, values: dict[str, object]) -> None:
    results.write(f"{dumps(values)}\n")  # a task may replace `print`
    results.flush()


def _start_pool(kind: str, task: str, workers: int, stack: ExitStack) -> Executor:
    """Start a pool whose workers have imported the task; raise StartError or the import's error."""
    executor = stack.enter_context(call_pools.create(kind, workers))
    pool_workers.start(executor, workers, task)
    return executor


def _measure(pool: Executor, task: str, count: int, seconds: float) -> dict[str, object]:
    """Call in `count` workers for `seconds`; return calls per second and the means of one call.

    Times in s: `wall_s` from start to end, `cpu_s` on a CPU, `queued_s` runnable without a CPU.
    """
    # Other interpreters need a partial, which is pickled by its function's name.
    found = call_pools.results(
        pool, partial(call_statistics.call_repeatedly, task, seconds), count, task
    )
    calls = sum(done for done, *_ in found)
    return {
        "rate": sum(done / wall for done, wall, *_ in found),
        "wall_s": sum(wall for _, wall, *_ in found) / calls,
        "cpu_s": sum(cpu for _, _, cpu, _, _ in found) / calls,
        "queued_s": sum(queued for _, _, _, queued, _ in found) / calls,
        "switches": sum(switches for *_, switches in found) / calls,
        "gil_enabled": own_gil.enabled(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
