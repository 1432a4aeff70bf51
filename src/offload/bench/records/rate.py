"""The rate of a case, from its visits."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.records.record import Record
from offload.bench.stats import sequential
from offload.bench.stats.estimate import Estimate, estimate


def of_visits(visits: Sequence[Record]) -> Estimate:
    """Estimate a case's rate, in requests a second, by the target of its run.

    A visit without a completed request is ignored; without any visit the value is None.
    """
    rates = [record.result.rate or None for record in visits]
    quantum = max((record.result.rate_quantum or 0.0 for record in visits), default=0.0)
    newest = visits[-1] if visits else None
    is_quick = newest is not None and newest.trial.quick
    target = None if newest is None else newest.trial.target
    return estimate(rates, sequential.QUICK if is_quick else sequential.NORMAL, target, quantum)
