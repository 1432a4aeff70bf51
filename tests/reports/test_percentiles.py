"""Percentiles of a load are printed as lower bounds where requests had no answer."""

from __future__ import annotations

from offload.documents.rows import percentiles_text
from tests.records import changed, record_of

RECORD = record_of("run", "threads", "sleep_sync", 25, "run_server:3,sleep_sync", "2026-01-01")


def test_a_time_that_ended_by_timeout_is_a_lower_bound() -> None:
    times = {f"response_{name}_s": 1.5 for name in ("p50", "p90", "p95")}
    times |= {f"response_{name}_s": 30.0 for name in ("p99", "p999", "max")}
    record = changed(RECORD, model="closed", **times)
    assert percentiles_text(changed(record, at_least_s=30.0)).endswith(
        "p50 1.50 s, p90 1.50 s, p95 1.50 s, p99 >= 30.00 s, p99.9 >= 30.00 s, max >= 30.00 s"
    )
    assert ">=" not in percentiles_text(record)
