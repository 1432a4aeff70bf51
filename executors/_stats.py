"""What a pool has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executors._dispatch import Dispatch


@dataclass(frozen=True)
class Stats:
    """Counts of tasks and workers, and sums of times; what is not known is None.

    A task is in `queued` or `running` (some worker holds it) and at last in `done` or `failed`;
    `crashed` are the failed ones whose worker died. `killed` counts workers ended for a timeout or
    a cancellation, `restarts` those replaced after a death, `memory` the bytes (PSS) that all of
    them use together. `queue_s`, `run_s` and `transport_s` are sums over all tasks so far.
    """

    queued: int
    running: int
    done: int
    failed: int
    crashed: int
    killed: int
    restarts: int
    pids: tuple[int, ...]
    memory: int | None
    queue_s: float
    run_s: float
    transport_s: float


def of(dispatch: Dispatch) -> Stats:
    """Count now."""
    staff = dispatch.staff
    pids = tuple(staff.pids())
    return Stats(
        queued=len(dispatch.queue),
        running=dispatch.running,
        done=dispatch.ledger.done,
        failed=dispatch.ledger.failed,
        crashed=staff.crashed,
        killed=staff.killed,
        restarts=staff.restarts,
        pids=pids,
        memory=_memory(pids),
        queue_s=dispatch.ledger.queue_ns / 1e9,
        run_s=dispatch.ledger.run_ns / 1e9,
        transport_s=dispatch.ledger.transport_ns / 1e9,
    )


def _memory(pids: tuple[int, ...]) -> int | None:
    try:
        return sum(_pss(pid) for pid in pids)
    except (OSError, StopIteration):  # no Linux, or a worker ended just now
        return None


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
