"""The resources that limit a rate, and what the calls of the probe show about them.

The GIL limits the calls of one process. A lock, a pool of connections or another machine is
external: the model knows it only by the rate that the calls reached.
"""

from __future__ import annotations

from offload.bench.advice.inputs.probe import PROCESSES, THREADS, Point, Probe
from offload.bench.advice.prediction.event_loops import loop_of_probe

SATURATED = 0.8  # share of the rate that workers and cores allow; below, something else limits it
QUEUED_SHARE = 0.25  # share of a call spent waiting for a CPU, above which cores limit the rate
GIL_SHARE = 0.5  # of the serial time: if a call holds the GIL for less, the limit is another one
USERS, WORKERS, CPU, GIL, SERVER, EXTERNAL, TASK = (
    "users",
    "workers",
    "cpu",
    "gil",
    "server",
    "external",
    "task",
)
COMMON = {USERS, WORKERS, CPU, TASK}  # all requests need these at the same time


def find_thread_limit(probe: Probe) -> tuple[str, float]:
    """Return the limit of all threads together, and for how many seconds a call occupies it."""
    if (limit := find_limited_point(probe, THREADS)) is None:
        return GIL, probe.call.held_s
    return name_process_limit(probe, limit), 1 / limit.rate


def name_process_limit(probe: Probe, point: Point) -> str:
    """Return what limits the calls of a point in one process: the GIL, or external."""
    return GIL if probe.call.held_s >= GIL_SHARE / point.rate else EXTERNAL


def find_limited_loop_point(probe: Probe) -> Point | None:
    """Return the calls of a coroutine on one loop if something besides the loop limited them.

    Examples are the GIL, which threads started by the coroutine hold, and a lock.
    """
    if (point := probe.loop_point) is None or probe.on_loop_s <= 0:
        return None
    allowed = loop_of_probe(probe).rate(point.count, in_step=1.0)
    return point if point.rate < SATURATED * allowed else None


def find_limited_point(probe: Probe, kind: str) -> Point | None:
    """Return the point with the highest rate if neither workers nor cores limited it."""
    points = probe.working(kind)
    if not points:
        return None
    best = max(points, key=lambda point: point.rate)
    if best.queued_s > QUEUED_SHARE * best.wall_s:
        return None
    most = points[-1]
    allowed = most.count / probe.call.wall_s
    if cpu_s := probe.cpu_s_on_busy_cores(PROCESSES):  # 0 if a call is too short to be measured
        allowed = min(allowed, probe.capacity / cpu_s)
    return best if best.rate < SATURATED * allowed else None
