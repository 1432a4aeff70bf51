"""The rate of a case, from its windows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from offload.bench.records.record import Record
from offload.bench.records.run_records import by_round
from offload.bench.stats import sequential
from offload.bench.stats.estimate import Estimate, estimate


def of_windows(windows: Sequence[Record]) -> Estimate:
    """Estimate a case's rate in requests/s from its rounds, with the target of its run.

    A window without a completed request is ignored; without any the value is None.
    """
    rates = [*by_round(windows, lambda record: record.result.rate).values()]
    quanta = [record.result.rate_quantum or 0.0 for record in windows]
    newest = windows[-1].trial if windows else None
    design = sequential.design(newest is not None and newest.quick)
    target = None if newest is None else newest.target
    return estimate(rates, design, target, statistics.fmean(quanta) if quanta else 0.0)
