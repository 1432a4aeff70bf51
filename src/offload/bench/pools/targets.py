"""The promises of the executors: how many times better they are at least, and what they survive."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offload.bench.experiments import hops
from offload.bench.experiments.hops import Hop
from offload.bench.experiments.method_check import CheckResult
from offload.bench.pools import run, summary
from offload.bench.pools.run import Line
from offload.bench.pools.summary import REFERENCE
from offload.bench.stats import ratio
from offload.bench.stats.ratio import Interval
from pipepool.pool import configure

POOL, ZERO_COPY_RESULT, EXECUTOR = "PipePool", "PipePool zero_copy_result", "PipeExecutor"
SERVER = "pipes"  # which has a PipePool
SLEEPING, AWAKE, LOOP = "socket pair", "awake pair", "event loop"
POOLS = (SLEEPING, AWAKE, LOOP, REFERENCE, POOL, ZERO_COPY_RESULT, EXECUTOR)
MIXTURE, CHAOS = {False: 6.0, True: 2.0}, {False: 30, True: 3}  # s; with quick
MORE_S = {False: 240.0, True: 60.0}  # s that the mixtures and the chaos tests take at most
KEPT, NO_WORSE = 0.8, 0.95  # of the rate without kills; of the standard pool's p99, over ours
ADDED, FASTER = 1.3, 1.6  # over HTTP: times what threads add at most; times the standard rate


@dataclass(frozen=True)
class Promise:
    """A pool is at least `times` as good as another: by its rate, or by its p50 with 1 at once.

    `times_without_polling` applies where workers do not poll by default.
    """

    pool: str
    other: str
    size: str
    concurrency: int
    times: float
    times_without_polling: float


# Without polling only no-op, 1 KB, 1 MB and PipeExecutor were measured; the others are estimates.
PROMISES = (
    Promise(POOL, REFERENCE, "no-op", 1, 4, 2.5),
    Promise(POOL, REFERENCE, "no-op", 64, 15, 15),
    Promise(POOL, REFERENCE, "1 KB", 1, 4, 2.2),
    Promise(POOL, REFERENCE, "1 KB", 64, 15, 12),
    Promise(POOL, REFERENCE, "100 KB", 1, 4, 3),
    Promise(POOL, REFERENCE, "100 KB", 64, 8, 6),
    Promise(POOL, REFERENCE, "100 KB result", 1, 4, 3),
    Promise(POOL, REFERENCE, "100 KB result", 64, 8, 6),
    Promise(POOL, REFERENCE, "1 MB", 1, 8, 6),
    Promise(POOL, REFERENCE, "1 MB", 64, 3, 3),
    Promise(POOL, REFERENCE, "1 MB result", 1, 5, 4),  # two copies, as fast as memory is
    Promise(POOL, REFERENCE, "1 MB result", 64, 3, 3),
    Promise(ZERO_COPY_RESULT, REFERENCE, "1 MB result", 64, 15, 10),
    Promise(POOL, REFERENCE, "10 MB", 1, 8, 6),
    Promise(POOL, REFERENCE, "10 MB", 64, 8, 6),
    Promise(EXECUTOR, REFERENCE, "no-op", 1, 2, 1.5),
    Promise(EXECUTOR, REFERENCE, "no-op", 64, 3.2, 3.2),
    Promise(POOL, SLEEPING, "no-op", 1, 1 / 2.5, 1 / 2.5),
    Promise(POOL, AWAKE, "no-op", 1, 1 / 2.5, 1 / 5),
    Promise(POOL, LOOP, "no-op", 64, 1 / 3, 1 / 3),
)


def measure_promises(quick: bool, workers: int, on_progress: Callable[[str], None]) -> list[Line]:
    """Measure what the promises are about; raise RunError when it fails."""
    words = [
        f"--pools={','.join(POOLS)}",
        f"--mixture={MIXTURE[quick]}",
        f"--chaos={CHAOS[quick]}",
    ]
    return run.measure_pools(quick, workers, on_progress, words, MORE_S[quick])


def is_polling(workers: int) -> bool:
    """Whether the workers of a pool poll by default on this machine."""
    return configure(workers).setup.busy_wait > 0


def check_promises(lines: Sequence[Line], servers: Sequence[Hop], polls: bool) -> list[CheckResult]:
    """Judge every promise by the lines of `measure`, and by the servers' figures over HTTP.

    `polls`: workers polled before they slept. What was not measured is not known.
    """
    slices = summary.group_slices(lines)
    chaos_tests = [line for line in lines if line["kind"] == "chaos"]
    return [
        *(_times(promise, slices, polls) for promise in PROMISES),
        _mixture(lines),
        *(result for chaos in chaos_tests for result in _chaos(chaos)),
        *_over_http(next((hop for hop in servers if hop.server == SERVER), None)),
    ]


def _times(
    promise: Promise, slices: Mapping[tuple[str, int, str], list[Line]], polls: bool
) -> CheckResult:
    cell = promise.size, promise.concurrency
    one, other = (slices.get((*cell, pool), []) for pool in (promise.pool, promise.other))
    found = summary.times_as_good(one, other, promise.concurrency)
    what = f"{promise.pool}, {promise.size}, {promise.concurrency} at once"
    least = promise.times if polls else promise.times_without_polling
    return _check_minimum(what, found, least, f" times {promise.other}")


def _mixture(lines: Sequence[Line]) -> CheckResult:
    p99: dict[str, dict[int, float]] = {POOL: {}, REFERENCE: {}}
    for line in lines:
        if line["kind"] == "mixture":
            p99[line["pool"]][line["round"]] = line["p99_us"]
    ours, theirs = p99[POOL], p99[REFERENCE]
    found = ratio.geometric_mean_ratio([(ours[n], theirs[n]) for n in ours if n in theirs])
    what = "p99 of 1 ms among 50 ms"
    return _check_minimum(what, found, NO_WORSE, f" times {REFERENCE}")


def _chaos(chaos: Line) -> Iterator[CheckResult]:
    retried = " retried" if chaos["idempotent"] else ""
    what = f"{chaos['kills']} kills in {len(chaos['rates'])} s{retried}:"
    most = 0 if chaos["idempotent"] else chaos["held"]  # by the killed workers
    failed, before = chaos["failed"], chaos["calm_failed"]
    lost = f"{failed} of {chaos['done']} tasks failed, {before} before it"
    required = f"{most} or fewer, none before"
    yield CheckResult(f"{what} tasks", lost, required, failed <= most and not before)
    again, kills = chaos["restarts"], chaos["kills"]
    yield CheckResult(f"{what} workers", f"{again} new workers", str(kills), again == kills)
    calm = statistics.fmean(chaos["calm"])
    kept = ratio.ratio_of_means([(calm, rate) for rate in chaos["rates"]])  # a dead second counts
    yield _check_minimum(f"{what} rate", kept, KEPT, " of the rate without")


def _over_http(hop: Hop | None) -> Iterator[CheckResult]:
    what = f"server {SERVER}, {hops.USERS} users:"
    rate, cpu = (hop.of_standard, hop.of_threads) if hop else (None, None)
    yield _check_minimum(f"{what} rate", rate, FASTER, f" times {hops.STANDARD}' requests/s")
    required = f"{ADDED:g} times the CPU that {hops.THREADS} add, or less"
    yield _check_range(f"{what} CPU", cpu, required, 0.0, ADDED)


def _check_minimum(what: str, found: Interval | None, least: float, unit: str) -> CheckResult:
    return _check_range(what, found, f"{least:.3g}{unit} or more", least, math.inf)


def _check_range(
    what: str, found: Interval | None, required: str, least: float, most: float
) -> CheckResult:
    """Judge a figure by its interval: it may lie beside what is required for, but not across it."""
    if found is None:
        return CheckResult(what, "not measured", required, None)
    value, low, high = found
    is_kept, is_broken = least <= low and high <= most, high < least or most < low
    passed = is_kept if is_kept or is_broken else None
    return CheckResult(what, f"{value:.2f} ({low:.2f} to {high:.2f})", required, passed)
