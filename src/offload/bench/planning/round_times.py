"""How long the rounds of a run took, and how long the next ones will take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offload.bench.planning.plan import Plan
from offload.bench.records.record import WINDOW, Record

GUESS = 4.0  # s per case of a round, until one round of its block was measured


def expected(plan: Plan, records: Sequence[Record]) -> list[float]:
    """Return the expected time of a round of each block in s: that of its last one, or a guess."""
    times = [GUESS * len(block.cases) for block in plan.blocks]
    for (block, _, _), seconds in measured(plan, records).items():
        if block is not None and 0 <= block < len(times):
            times[block] = seconds
    return times


def measured(
    plan: Plan, records: Sequence[Record]
) -> Mapping[tuple[int | None, int | None, int], float]:
    """Return the seconds that each attempt of a round took.

    The windows of a round have its other phases in common, but a case that runs `apart` its own.
    """
    times: dict[tuple[int | None, int | None, int], float] = {}
    places: set[tuple[int | None, int | None, int, int | None]] = set()
    for record in records:
        trial = record.trial
        if trial.kind != WINDOW:
            continue
        which = (trial.block, trial.round, trial.attempt)
        is_first = which not in times
        if _is_apart(plan, trial.block):
            is_first = (*which, trial.place) not in places
            places.add((*which, trial.place))
        known = trial.phases.values() if is_first else [trial.phases.get("load", 0.0)]
        times[which] = times.get(which, 0.0) + sum(known)
    return times


def _is_apart(plan: Plan, block: int | None) -> bool:
    return block is not None and 0 <= block < len(plan.blocks) and plan.blocks[block].apart
