"""Performance and reliability targets of the executors, and checks of their measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.method.method_check import CheckResult
from lab.pools import hops, run, summary
from lab.pools.hops import Hop
from lab.pools.ratio_of_means import ratio_of_means
from lab.pools.run import Line
from lab.pools.summary import REFERENCE
from offload.engine import intervals
from offload.engine.intervals import Interval
from pipepool.configuration import PoolOptions

POOL, ZERO_COPY_RESULT, EXECUTOR = "PipePool", "PipePool zero_copy_result", "PipeExecutor"
SERVER = "pipes"  # the server with a PipePool
SLEEPING, AWAKE, LOOP = "socket pair", "awake pair", "event loop"
POOLS = (SLEEPING, AWAKE, LOOP, REFERENCE, POOL, ZERO_COPY_RESULT, EXECUTOR)
MIXTURE, CHAOS = {False: 6.0, True: 2.0}, {False: 30, True: 3}  # s; by quick
MORE_S = {False: 240.0, True: 60.0}  # s: upper limit for mixtures and chaos tests; by quick
MIN_CHAOS_RATE = 0.8  # share of the rate without kills
MIN_MIXTURE_RATIO = 0.95  # p99 of the standard pool over ours
MAX_HTTP_CPU = 1.3  # times the CPU time that threads add to a request over HTTP
MIN_HTTP_RATE = 1.6  # times the rate of the standard process pool over HTTP


@dataclass(frozen=True)
class Target:
    """A pool is at least `times` as fast as another one, by rate or, with one task, by p50.

    `times_without_polling` is the target on machines where workers do not poll by default.
    """

    pool: str
    other: str
    size: str
    concurrency: int
    times: float
    times_without_polling: float


# Without polling, only no-op, 1 KB, 1 MB and PipeExecutor were measured; the rest is estimated.
TARGETS = (
    Target(POOL, REFERENCE, "no-op", 1, 4, 2.5),
    Target(POOL, REFERENCE, "no-op", 64, 15, 15),
    Target(POOL, REFERENCE, "1 KB", 1, 4, 2.2),
    Target(POOL, REFERENCE, "1 KB", 64, 15, 12),
    Target(POOL, REFERENCE, "100 KB", 1, 4, 3),
    Target(POOL, REFERENCE, "100 KB", 64, 8, 6),
    Target(POOL, REFERENCE, "100 KB result", 1, 4, 3),
    Target(POOL, REFERENCE, "100 KB result", 64, 8, 6),
    Target(POOL, REFERENCE, "1 MB", 1, 8, 6),
    Target(POOL, REFERENCE, "1 MB", 64, 3, 3),
    Target(POOL, REFERENCE, "1 MB result", 1, 5, 4),  # two copies, limited by memory bandwidth
    Target(POOL, REFERENCE, "1 MB result", 64, 3, 3),
    Target(ZERO_COPY_RESULT, REFERENCE, "1 MB result", 64, 15, 10),
    Target(POOL, REFERENCE, "10 MB", 1, 8, 6),
    Target(POOL, REFERENCE, "10 MB", 64, 8, 6),
    Target(EXECUTOR, REFERENCE, "no-op", 1, 2, 1.5),
    Target(EXECUTOR, REFERENCE, "no-op", 64, 3.2, 3.2),
    Target(POOL, SLEEPING, "no-op", 1, 1 / 2.5, 1 / 2.5),
    Target(POOL, AWAKE, "no-op", 1, 1 / 2.5, 1 / 5),
    Target(POOL, LOOP, "no-op", 64, 1 / 3, 1 / 3),
)


def measure_targets(quick: bool, workers: int, on_progress: Callable[[str], None]) -> list[Line]:
    """Measure the pools of all targets; raise RunError if that fails."""
    arguments = [
        f"--pools={','.join(POOLS)}",
        f"--mixture={MIXTURE[quick]}",
        f"--chaos={CHAOS[quick]}",
    ]
    return run.measure_pools(quick, workers, on_progress, arguments, MORE_S[quick])


def is_polling(workers: int) -> bool:
    """Return whether the workers of a pool poll by default on this machine."""
    return PoolOptions(workers).setup.busy_wait > 0


def check_targets(lines: Sequence[Line], servers: Sequence[Hop], polls: bool) -> list[CheckResult]:
    """Check every target with the lines of `measure_targets` and the servers' results over HTTP.

    With `polls` workers poll before they sleep. The result of a target without measurements is
    None.
    """
    slices = summary.group_slices(lines)
    chaos_tests = [line for line in lines if line["kind"] == "chaos"]
    return [
        *(_times(target, slices, polls) for target in TARGETS),
        _mixture(lines),
        *(result for chaos in chaos_tests for result in _chaos(chaos)),
        *_over_http(next((hop for hop in servers if hop.server == SERVER), None)),
    ]


def _times(
    target: Target, slices: Mapping[tuple[str, int, str], list[Line]], polls: bool
) -> CheckResult:
    cell = target.size, target.concurrency
    one, other = (slices.get((*cell, pool), []) for pool in (target.pool, target.other))
    found = summary.performance_ratio(one, other, target.concurrency)
    what = f"{target.pool}, {target.size}, {target.concurrency} at once"
    minimum = target.times if polls else target.times_without_polling
    return _check_minimum(what, found, minimum, f" times {target.other}")


def _mixture(lines: Sequence[Line]) -> CheckResult:
    p99: dict[str, dict[int, float]] = {POOL: {}, REFERENCE: {}}
    for line in lines:
        if line["kind"] == "mixture":
            p99[line["pool"]][line["round"]] = line["p99_us"]
    ours, theirs = p99[POOL], p99[REFERENCE]
    found = intervals.geometric_mean_ratio([(ours[n], theirs[n]) for n in ours if n in theirs])
    what = "p99 of 1 ms tasks among 50 ms tasks"
    return _check_minimum(what, found, MIN_MIXTURE_RATIO, f" times {REFERENCE}")


def _chaos(chaos: Line) -> Iterator[CheckResult]:
    retried = " retried" if chaos["idempotent"] else ""
    what = f"{chaos['kills']} kills in {len(chaos['rates'])} s{retried}:"
    maximum = 0 if chaos["idempotent"] else chaos["held"]  # the tasks of the killed workers
    failed, before = chaos["failed"], chaos["calm_failed"]
    measured = f"{failed} of {chaos['done']} tasks failed, {before} before the kills"
    required = f"{maximum} or fewer, none before the kills"
    yield CheckResult(f"{what} tasks", measured, required, failed <= maximum and not before)
    restarts, kills = chaos["restarts"], chaos["kills"]
    yield CheckResult(f"{what} workers", f"{restarts} restarts", str(kills), restarts == kills)
    calm = statistics.fmean(chaos["calm"])
    # Seconds in which no task completed count, too.
    share = ratio_of_means([(calm, rate) for rate in chaos["rates"]])
    yield _check_minimum(f"{what} rate", share, MIN_CHAOS_RATE, " of the rate without kills")


def _over_http(hop: Hop | None) -> Iterator[CheckResult]:
    what = f"server {SERVER}, {hops.USERS} users:"
    rate, cpu = (hop.of_standard, hop.of_threads) if hop else (None, None)
    yield _check_minimum(f"{what} rate", rate, MIN_HTTP_RATE, f" times {hops.STANDARD}' requests/s")
    required = f"{MAX_HTTP_CPU:g} times the CPU that {hops.THREADS} add, or less"
    yield _check_range(f"{what} CPU", cpu, required, 0.0, MAX_HTTP_CPU)


def _check_minimum(what: str, found: Interval | None, minimum: float, unit: str) -> CheckResult:
    return _check_range(what, found, f"{minimum:.3g}{unit} or more", minimum, math.inf)


def _check_range(
    what: str, found: Interval | None, required: str, minimum: float, maximum: float
) -> CheckResult:
    """Check a value by its interval: passed inside the range, failed outside, else None."""
    if found is None:
        return CheckResult(what, "not measured", required, None)
    value, low, high = found
    is_inside, is_outside = minimum <= low and high <= maximum, high < minimum or maximum < low
    passed = is_inside if is_inside or is_outside else None
    return CheckResult(what, f"{value:.2f} ({low:.2f} to {high:.2f})", required, passed)
