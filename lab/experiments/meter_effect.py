"""Test whether the GIL sampler slows down the server.

Usage: python -m lab meter_effect [TASK]

A server with 4 threads is loaded in 120 pairs of slices. One slice of each pair is with the sampler
and one without, in random order. The test passes (exit code 0) if the 95 % interval of the ratio of
their rates contains 1 and is within 3 %. It takes about 7 minutes, and needs a quiet machine.
"""

from __future__ import annotations

import random
import sys
from contextlib import nullcontext

from offload import loads, prctl
from offload.engine import decisions, server
from offload.engine.gil_sampler import GilSampler
from offload.loads import Load, Window
from offload.registry import catalog
from offload.suites import Case
from scripts.script import run

PAIRS = 120
SLICE, WARM = 1.0, 0.3  # s of each slice, and of the warm-up before it
WITHIN = 0.03
TASK = "noop_sync"  # the task with the most GIL switches per second


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit code; Ctrl-C prints the ratio so far."""
    task = catalog.find_task(arguments[0] if arguments else TASK).name
    prctl.adopt_orphans()
    pairs: list[tuple[float, float]] = []
    running = server.start(Case("threads", task), {})
    try:
        load = Load(running.url, users=8, seconds=SLICE, keep_alive=True, window=Window(WARM))
        rng = random.Random()  # noqa: S311 - no secret
        for number in range(1, PAIRS + 1):
            pairs.append(_pair(load, running.facts, rng.random() < 0.5))
            if number % 20 == 0:
                print(f"{number} pairs: {_ratio_text(pairs)}", flush=True)
    except KeyboardInterrupt:
        so_far = _ratio_text(pairs) if len(pairs) > 1 else "no ratio yet"
        what = f"{task}, rate with the sampler over without"
        print(f"{what}, {len(pairs)} pairs: {so_far}: not finished")
        raise
    finally:
        server.stop(running, server.SHORT_DRAIN)
    found = decisions.compare_pairs(pairs, alpha=0.05)
    passed = 1 - WITHIN < found.low <= 1 <= found.high < 1 + WITHIN
    result = "the sampler has no effect" if passed else "failed: effect of the sampler, or noise"
    print(f"{task}, rate with the sampler over without: {_ratio_text(pairs)}: {result}")
    return 0 if passed else 1


def _pair(load: Load, facts: dict[str, object], on_first: bool) -> tuple[float, float]:
    """Return the rates without and with the sampler, in requests/s."""
    first, second = (_rate(load, facts if on else None) for on in (on_first, not on_first))
    return (second, first) if on_first else (first, second)


def _rate(load: Load, facts: dict[str, object] | None) -> float:
    with GilSampler(facts) if facts is not None else nullcontext() as sampler:
        ran = loads.run(load, "builtin")
    found = None if sampler is None else sampler.between(None, None)
    if found is not None and found.late is None:  # late samples count, too
        sys.exit(f"the sampler read nothing: {found.why}")
    return ran.result.figures.rate or sys.exit(f"no rate: {ran.result.problem}")


def _ratio_text(pairs: list[tuple[float, float]]) -> str:
    found = decisions.compare_pairs(pairs, alpha=0.05)
    return f"ratio {found.ratio:.4f}, 95 % interval {found.low:.4f} to {found.high:.4f}"


if __name__ == "__main__":
    run(main)
