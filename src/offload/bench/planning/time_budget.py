"""The time budget of a run: time used so far, expected time, and time left for rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offload.bench.planning import schedule
from offload.bench.planning.plan import Plan
from offload.bench.planning.schedule import Round
from offload.bench.records.record import WINDOW, Record

AROUND = 2.0  # s of a long run in addition to its load, on average: start, warm-up, stop
GUESS = 4.0  # s per case of a round, until one round of its block was measured


def round_times(plan: Plan, records: Sequence[Record]) -> list[float]:
    """Return the expected time of a round of each block in s: that of its last one, or a guess."""
    times = [GUESS * len(block.cases) for block in plan.blocks]
    for (block, _, _), seconds in times_of_rounds(plan, records).items():
        if block is not None and 0 <= block < len(times):
            times[block] = seconds
    return times


def limits_rounds(plan: Plan) -> bool:
    """Whether time suffices for a few rounds only, so that each of them should be short.

    The t interval of three rounds is 3.7 times their SD, and that of seven 1.1 times: four more
    rounds narrow it more than the second windows that take the same time.
    """
    return plan.gate is not None or (plan.quick and plan.budget_s is not None)


def long_runs_s(plan: Plan, records: Sequence[Record]) -> float:
    """Return the expected time of all due long runs in s."""
    return sum(
        plan.cases[place].seconds + AROUND for place in schedule.long_runs_due(plan, records)
    )


def left_for_rounds_s(plan: Plan, records: Sequence[Record]) -> float | None:
    """Return the time left for rounds in s, after that of the long runs; None if unlimited."""
    if plan.budget_s is None:
        return None
    others = (record for record in records if record.trial.kind != WINDOW)
    spent = sum(times_of_rounds(plan, records).values()) + sum(
        sum(r.trial.phases.values()) for r in others
    )
    return plan.budget_s - spent - long_runs_s(plan, records)


def has_more(plan: Plan, records: Sequence[Record]) -> bool:
    """Whether a long run is due, or a round that fits into the time budget."""
    if schedule.long_runs_due(plan, records):
        return True
    left, times = left_for_rounds_s(plan, records), round_times(plan, records)
    left_out: set[Round] = set()
    while todo := schedule.due(plan, records, left_out):
        if left is None or any(times[each.block] <= left for each in todo):
            return True
        left_out |= {*todo}
    return False


def times_of_rounds(
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
