"""The measured times of a run's rounds, and the expected times of the next ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offload.bench.planning.blocks import Block
from offload.engine.record import WINDOW, Record

GUESS = 4.0  # s per case of a round, until one round of its block was measured


def expected(blocks: Sequence[Block], records: Sequence[Record]) -> list[float]:
    """Return the expected time in s of a round of each block: that of its last one, or a guess."""
    times = [GUESS * len(block.cases) for block in blocks]
    for (block, _, _), seconds in measured(blocks, records).items():
        if block is not None and 0 <= block < len(times):
            times[block] = seconds
    return times


def of_round(blocks: Sequence[Block], records: Sequence[Record], block: int, number: int) -> float:
    """Return the duration in s of the first attempt of a round; 0.0 if it was not measured."""
    return measured(blocks, records).get((block, number, 1), 0.0)


def measured(
    blocks: Sequence[Block], records: Sequence[Record]
) -> Mapping[tuple[int | None, int | None, int], float]:
    """Return the duration in s of each attempt of a round, by (block, round, attempt).

    The phases of a round other than `load` are counted once, because its windows share them. In a
    block that runs `apart` they are counted once for each case.
    """
    times: dict[tuple[int | None, int | None, int], float] = {}
    places: set[tuple[int | None, int | None, int, int | None]] = set()
    for record in records:
        trial = record.trial
        if trial.kind != WINDOW:
            continue
        attempt = (trial.block, trial.round, trial.attempt)
        is_first = attempt not in times
        if trial.block is not None and 0 <= trial.block < len(blocks) and blocks[trial.block].apart:
            is_first = (*attempt, trial.place) not in places
            places.add((*attempt, trial.place))
        phases = trial.phases.values() if is_first else [trial.phases.get("load", 0.0)]
        times[attempt] = times.get(attempt, 0.0) + sum(phases)
    return times
