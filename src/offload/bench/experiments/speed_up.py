"""Speed-ups: the rate of several workers divided by the rate of one thread, by direct calls."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.experiments.direct_calls import Calls, Direct

ROUNDS = 3  # each measures one thread, then each kind; a median of 3 ignores one disturbed round
SECONDS = 0.7  # s of each measurement, which has at least CALLS calls
CALLS = 2
START = 3.0  # s until all workers have imported the task; a guess


@dataclass(frozen=True)
class SpeedUp:
    """The figures of workers of one kind: medians over the rounds.

    `ratio` is their rate divided by that of one thread, `switches` the context switches per call.
    `gil_enabled` is the state of the GIL after the calls, in the process that runs the threads.
    """

    ratio: float
    switches: float
    gil_enabled: bool


def speed_ups(running: Direct, workers: int, kinds: Sequence[str]) -> dict[str, SpeedUp]:
    """Measure kinds of workers ("threads", "processes" or "interpreters"), interleaved.

    Raise StartError for a kind that the task or this Python does not support.
    """
    alone: list[float] = []
    calls: dict[str, list[Calls]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        alone.append(running.call("threads", 1, SECONDS).rate)
        for kind in kinds:
            calls[kind].append(running.call(kind, workers, SECONDS))
    return {kind: _median(found, statistics.median(alone)) for kind, found in calls.items()}


def least_s(kinds: int, call_s: float) -> float:
    """Return the time in s that `speed_ups` takes at least, if a call takes `call_s`."""
    return START + ROUNDS * (1 + kinds) * max(SECONDS, CALLS * call_s)


def _median(found: Sequence[Calls], alone: float) -> SpeedUp:
    return SpeedUp(
        statistics.median(calls.rate for calls in found) / alone,
        statistics.median(calls.switches for calls in found),
        found[-1].gil_enabled,
    )
