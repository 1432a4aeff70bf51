"""The promises of the executors: how many times better they are at least, and what they survive."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench import cells, hops, pools
from bench.cells import REFERENCE
from bench.hops import Hop
from bench.method import Claim
from bench.pools import Line
from bench.stats import ratio
from bench.stats.ratio import Interval

POOL, LEASED, EXECUTOR = "PipePool", "PipePool leased", "PipeExecutor"
SERVER = "pipes"  # which has a PipePool
PING_PONG, LOOP = "socket pair", "event loop"
POOLS = (PING_PONG, LOOP, REFERENCE, POOL, LEASED, EXECUTOR)
MIXTURE, STORM = {False: 6.0, True: 2.0}, {False: 30, True: 3}  # s; with quick
MORE_S = {False: 240.0, True: 60.0}  # s that the mixtures and the storms take at most
KEPT, NO_WORSE = 0.8, 0.95  # of the rate without kills; of the standard pool's p99, over ours
ADDED, FASTER = 1.3, 1.6  # over HTTP: times what threads add at most; times the standard rate


@dataclass(frozen=True)
class Promise:
    """A pool is `times` as good as another at least: in its rate, or with 1 at once in its p50."""

    pool: str
    other: str
    size: str
    flight: int
    times: float


def _both(pool: str, size: str, one: float, many: float) -> tuple[Promise, Promise]:
    return (
        Promise(pool, REFERENCE, size, 1, one),
        Promise(pool, REFERENCE, size, 64, many),
    )


PROMISES = (
    *_both(POOL, "no-op", 5, 20),
    *_both(POOL, "1 KB", 5, 20),
    *_both(POOL, "100 KB", 4, 8),
    *_both(POOL, "100 KB result", 4, 8),
    *_both(POOL, "1 MB", 8, 3),
    *_both(POOL, "1 MB result", 5, 3),  # at 1 it is two copies, as fast as memory is
    Promise(LEASED, REFERENCE, "1 MB result", 64, 15),
    *_both(POOL, "10 MB", 8, 8),
    *_both(EXECUTOR, "no-op", 2, 4),
    Promise(POOL, PING_PONG, "no-op", 1, 1 / 2.5),
    Promise(POOL, LOOP, "no-op", 64, 1 / 3),
)


def measure(quick: bool, workers: int, tell: Callable[[str], None]) -> list[Line]:
    """Measure what the promises are about; raise RunError when it fails."""
    words = [
        f"--pools={','.join(POOLS)}",
        f"--mixture={MIXTURE[quick]}",
        f"--storm={STORM[quick]}",
    ]
    return pools.measure(quick, workers, tell, words, MORE_S[quick])


def judge_all(lines: Sequence[Line], servers: Sequence[Hop]) -> list[Claim]:
    """Judge every promise by the lines of `measure` and by what servers did over HTTP.

    What was not measured is not known.
    """
    slices = cells.slices_of(lines)
    storms = [line for line in lines if line["kind"] == "storm"]
    return [
        *(_times(promise, slices) for promise in PROMISES),
        _mixture(lines),
        *(claim for storm in storms for claim in _storm(storm)),
        *_over_http(next((hop for hop in servers if hop.server == SERVER), None)),
    ]


def _times(promise: Promise, slices: Mapping[tuple[str, int, str], list[Line]]) -> Claim:
    cell = promise.size, promise.flight
    one, other = (slices.get((*cell, pool), []) for pool in (promise.pool, promise.other))
    found = cells.times_as_good(one, other, promise.flight)
    what = f"{promise.pool}, {promise.size}, {promise.flight} at once"
    return _claim(what, found, promise.times, f" times {promise.other}")


def _mixture(lines: Sequence[Line]) -> Claim:
    p99: dict[str, dict[int, float]] = {POOL: {}, REFERENCE: {}}
    for line in lines:
        if line["kind"] == "mixture":
            p99[line["pool"]][line["round"]] = line["p99_us"]
    ours, theirs = p99[POOL], p99[REFERENCE]
    found = ratio.geometric([(ours[n], theirs[n]) for n in ours if n in theirs])
    what = "p99 of 1 ms among 50 ms"
    return _claim(what, found, NO_WORSE, f" times {REFERENCE}")


def _storm(storm: Line) -> Iterator[Claim]:
    retried = " retried" if storm["idempotent"] else ""
    what = f"{storm['kills']} kills in {len(storm['rates'])} s{retried}:"
    most = 0 if storm["idempotent"] else storm["held"]  # by the killed workers
    failed, before = storm["failed"], storm["calm_failed"]
    lost = f"{failed} of {storm['done']} tasks failed, {before} before it"
    asked = f"{most} or fewer, none before"
    yield Claim(f"{what} tasks", lost, asked, failed <= most and not before)
    again, kills = storm["restarts"], storm["kills"]
    yield Claim(f"{what} workers", f"{again} new workers", str(kills), again == kills)
    calm = statistics.fmean(storm["calm"])
    kept = ratio.of_means([(calm, rate) for rate in storm["rates"]])  # a dead second counts
    yield _claim(f"{what} rate", kept, KEPT, " of the rate without")


def _over_http(hop: Hop | None) -> Iterator[Claim]:
    what = f"server {SERVER}, {hops.USERS} users:"
    rate, cpu = (hop.of_standard, hop.of_threads) if hop else (None, None)
    yield _claim(f"{what} rate", rate, FASTER, f" times {hops.STANDARD}' requests/s")
    asked = f"{ADDED:g} times the CPU that {hops.THREADS} add, or less"
    yield _judged(f"{what} CPU", cpu, asked, 0.0, ADDED)


def _claim(what: str, found: Interval | None, least: float, unit: str) -> Claim:
    return _judged(what, found, f"{least:.3g}{unit} or more", least, math.inf)


def _judged(what: str, found: Interval | None, asked: str, least: float, most: float) -> Claim:
    """Judge a figure by its interval: it may lie beside what is asked for, but not across it."""
    if found is None:
        return Claim(what, "not measured", asked, None)
    value, low, high = found
    is_kept, is_broken = least <= low and high <= most, high < least or most < low
    passed = is_kept if is_kept or is_broken else None
    return Claim(what, f"{value:.2f} ({low:.2f} to {high:.2f})", asked, passed)
