"""Direct calls of a task, without a server: python -m servers._direct TASK WORKERS.

Each line on stdin is `threads N SECONDS` or `processes N SECONDS`, with N up to WORKERS; the answer
is one line of JSON on stdout. Every worker calls the task again and again on its own, so nothing
but the calls is measured: no hop, no HTTP. What it takes from the bench's environment is what
`python -m servers` takes.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier, get_native_id
from time import monotonic, thread_time

import tasks
from errors import Mendable
from servers import _probe, _ready, _workers


def main(words: list[str]) -> int:
    """Serve commands until stdin ends; return the exit code."""
    task, workers = words[0], int(words[1])
    _probe.facts.update(_probe.identity(), task=task, workers=workers)
    context = get_context("forkserver")
    try:
        with (
            ProcessPoolExecutor(
                workers, context, _workers.begin, (context.Barrier(workers),)
            ) as processes,
            ThreadPoolExecutor(workers, "worker", _workers.share, (Barrier(workers),)) as threads,
        ):
            _workers.start(processes, workers, task)
            _workers.start(threads, workers, task)
            print(json.dumps(_probe.facts), flush=True)
            pools: dict[str, Executor] = {"threads": threads, "processes": processes}
            for line in sys.stdin:
                kind, count, seconds = line.split()
                print(json.dumps(_together(pools[kind], task, int(count), float(seconds))))
                sys.stdout.flush()
    except Mendable as error:
        _ready.fail(str(error), error.exit_code)
        return error.exit_code
    return 0


def _together(pool: Executor, task: str, count: int, seconds: float) -> dict[str, float]:
    """Have `count` workers call for `seconds`; give calls a second and the means of one call.

    Times in s: `wall_s` from begin to end, `cpu_s` on a CPU, `queued_s` ready but waiting for one.
    """
    loops = [pool.submit(_calls, task, seconds) for _ in range(count)]
    found = [loop.result() for loop in loops]
    calls = sum(done for done, *_ in found)
    return {
        "rate": sum(done / wall for done, wall, *_ in found),
        "wall_s": sum(wall for _, wall, *_ in found) / calls,
        "cpu_s": sum(cpu for _, _, cpu, _, _ in found) / calls,
        "queued_s": sum(queued for _, _, _, queued, _ in found) / calls,
        "switches": sum(switches for *_, switches in found) / calls,
    }


def _calls(task: str, seconds: float) -> tuple[int, float, float, float, int]:
    """Call a task for `seconds`, at least twice; give calls, wall, CPU and queued s, switches."""
    done, cpu, (queued, switches) = 0, thread_time(), _scheduled()
    began = now = monotonic()
    while done < 2 or now - began < seconds:
        tasks.call(task)
        done += 1
        now = monotonic()
    later, more = _scheduled()
    return done, now - began, thread_time() - cpu, later - queued, more - switches


def _scheduled() -> tuple[float, int]:
    """Give what this thread waited for a CPU, in s, and its context switches (Linux; else 0)."""
    folder = Path(f"/proc/self/task/{get_native_id()}")
    try:
        queued = int((folder / "schedstat").read_bytes().split()[1]) / 1e9
        lines = (folder / "status").read_text().splitlines()
    except OSError:
        return 0.0, 0
    return queued, sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
