"""The rate of a case, from its windows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from offload.engine import intervals
from offload.engine.intervals import Estimate, estimate
from offload.engine.record import Record, by_round, of_rate
from offload.flags import TOO_SLOW

HOPELESS = 2  # rounds without a rate after which a case is not measured again


def of_windows(windows: Sequence[Record]) -> Estimate:
    """Estimate a case's rate in requests/s, from the geometric mean of its windows in each round.

    Windows without a completed request are ignored; the value is None if there are no others.
    Windows with `apart` are not mixed with others. The newest window determines the design (normal
    or quick) and the target.
    """
    windows = of_rate(windows)
    rates = [*by_round(windows, lambda record: record.result.rate).values()]
    quanta = [max(0.0, record.result.rate_quantum or 0.0) for record in windows]
    newest = windows[-1].trial if windows else None
    design = intervals.sequential_design(newest is not None and newest.quick)
    target = None if newest is None else newest.target
    return estimate(rates, design, target, statistics.fmean(quanta) if quanta else 0.0)


def is_hopeless(windows: Sequence[Record]) -> bool:
    """Whether a case had no rate in each of its last HOPELESS rounds, or is too slow."""
    if any(record.problem and record.problem.kind == TOO_SLOW for record in windows):
        return True
    rounds: dict[tuple[int | None, int | None], bool] = {}
    for record in windows:
        which = record.trial.block, record.trial.round
        has_rate = record.problem is None and bool(record.result.rate)
        rounds[which] = rounds.get(which, False) or has_rate
    last = [*rounds.values()][-HOPELESS:]
    return len(last) == HOPELESS and not any(last)
