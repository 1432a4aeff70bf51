"""The counts of a pool, and the memory of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipepool.scheduling.scheduler import Scheduler


@dataclass(frozen=True)
class Stats:
    """Counts of tasks and workers, and sums of times; unknown values are None.

    Each task is counted in exactly one of these: `queued`, `running` (a worker holds it), `done`,
    `failed`, `cancelled` (its caller was cancelled, whether the task ran or not). A task that times
    out is counted in `failed` at once, before its worker is killed. `crashed` counts the failed
    tasks whose worker died, `killed` the workers that the pool killed, and `restarts` all workers
    that died after they were ready, for any reason. The times are sums in seconds: `queue_s` until
    tasks were first sent to a worker, `run_s` while they ran, and `transport_s` the remaining time
    until their results, which includes waiting behind tasks of the same worker. `suspects` are the
    pids of workers that may be broken: all their tasks fail since one called `sys.exit()`.
    """

    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    crashed: int
    killed: int
    restarts: int
    pids: tuple[int, ...]
    queue_s: float
    run_s: float
    transport_s: float
    suspects: tuple[int, ...]

    @property
    def memory(self) -> int | None:
        """The bytes (PSS) that the workers use now; reading it takes about 1 ms a worker."""
        return _memory(self.pids)


def stats_of(scheduler: Scheduler) -> Stats:
    """Return the current counts of a pool."""
    manager, accounting = scheduler.manager, scheduler.accounting
    pids = tuple(manager.pids())
    return Stats(
        queued=len(scheduler.queue),
        running=accounting.pending - len(scheduler.queue),
        done=accounting.done,
        failed=accounting.failed,
        cancelled=accounting.cancelled,
        crashed=accounting.crashed,
        killed=manager.killed,
        restarts=manager.restarts,
        pids=pids,
        queue_s=accounting.queue_ns / 1e9,
        run_s=accounting.run_ns / 1e9,
        transport_s=accounting.transport_ns / 1e9,
        suspects=tuple(each.pid for each in manager.live() if each.pid and each.is_suspect),
    )


def _memory(pids: tuple[int, ...]) -> int | None:
    try:
        return sum(_pss(pid) for pid in pids)
    except (OSError, StopIteration):  # not Linux, or a worker ended just now
        return None


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
