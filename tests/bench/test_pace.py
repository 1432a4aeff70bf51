"""A comparison says beforehand how long it takes at most, and then by the pairs it has."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from offload.bench.experiments.pace import Pace

from offload.bench.records.record import Baseline
from offload.suites import Case
from tests.reports.test_gil_cost import RECORD


def test_a_comparison_says_how_long_and_then_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 0.0, 1.0, 4.0])
    monkeypatch.setattr("offload.bench.experiments.pace.time.monotonic", lambda: next(clock))
    pairs: list[int] = []
    pace = Pace(Case("threads", "noop_sync"), Case("processes", "noop_sync"), pairs)
    live = Mock(case=RECORD.case, facts=RECORD.server, baseline=Baseline(alone_s=0.01))
    pace.begin(5, 40, [live] * 2, slice_s=1.0)
    expected = "3/noop_sync against 4/noop_sync, in turn: at most 40 pairs, about 3 min\n"
    assert capsys.readouterr().err == expected
    assert pace.line() == "0 pairs; 24 s to the look at 5"
    pairs.append(1)
    assert pace.line() == "1 pairs; 16 s to the look at 5"
