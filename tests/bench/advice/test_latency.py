"""Response times below the capacity: the loads end in time."""

from __future__ import annotations

import time

import pytest

from offload.bench.advice import latency
from offload.bench.records.record import LONG
from offload.bench.trial import builder
from offload.suites import Case

pytestmark = pytest.mark.server

CASE = Case("threads", "noop_sync", users=5)


def test_after_the_first_pass_none_starts_that_would_end_too_late() -> None:
    trial = builder.new_trial("a run", kind=LONG, suite="advise", place=0, seed=1, quick=True)
    began = time.monotonic()
    loads = [*latency.measure(CASE, 100.0, trial, None, until=began)]
    assert len(loads) == len(latency.LOADS)
    assert [each.problem for each in loads] == [None, None]
    found = latency.percentiles(loads)
    assert all(each.low is not None and each.value is not None for each in found)
