"""The table of pools: ratios within a round, percentiles over all samples."""

from __future__ import annotations

import pytest

from lab.pools import pools_table as report
from lab.pools import summary
from lab.pools.run import Line

RATES = {"process": [100.0, 200.0, 50.0], "PipePool": [1000.0, 2000.0, 500.0]}


def lines(concurrency: int) -> list[Line]:
    found: list[Line] = []
    for pool, rates in RATES.items():
        cell = {"pool": pool, "size": "no-op", "concurrency": concurrency}
        for number, rate in enumerate(rates):
            moment = {"rate": rate, "p50_us": 1e6 / rate, "p99_us": 2e6 / rate, "cpu_us": 3.0}
            found.append({"kind": "slice", **cell, "round": number, "bytes": 0, **moment})
        found.append({"kind": "times", **cell, "n": 30, "p50_us": 7.0, "p99_us": 9.0})
        found.append({"kind": "pool", "pool": pool, "start_s": 0.1, "memory_mib": 0})
    return [*found, {"kind": "missing", "pool": "loky", "why": "No module named 'loky'"}]


@pytest.mark.parametrize("concurrency", [1, 64])
def test_a_constant_ratio_of_ten_has_an_exact_interval(concurrency: int) -> None:
    reference, cell = summary.summarize(lines(concurrency))
    assert (cell.times, cell.low, cell.high) == pytest.approx((10, 10, 10))
    assert (cell.rate, cell.p50_us, cell.p99_us, cell.cpu_us) == pytest.approx((1000, 7, 9, 3))
    assert (reference.times, reference.low) == (pytest.approx(1), None)
    assert cell.half_width is not None and cell.half_width > 1


def test_the_table_names_what_is_missing() -> None:
    found = summary.summarize(lines(64))
    text = report.text(found, lines(64), "a machine")
    assert "10.00 to 10.00" in text.replace("  ", " ")
    assert text.endswith("Not installed: loky.")
    assert len(report.as_dict(found, lines(64), "a machine")["cells"]) == 2
