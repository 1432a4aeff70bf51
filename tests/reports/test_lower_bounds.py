"""A percentile that is a lower bound is marked in JSON, and no claim uses it."""

from __future__ import annotations

import pytest

from offload.documents import results_files
from offload.documents.rows import rows
from offload.engine.record import WINDOW
from offload.loads.engine.figures import histogram
from offload.suites import Case
from tests.records import changed, new_record

CASE = Case("threads", "noop_sync")


@pytest.mark.parametrize("timeout", [0.2, 1.0, 2.0, 30.0, 60.0])
def test_a_p99_of_timeouts_is_at_least_the_timeout(timeout: float) -> None:
    ordered = [0.01] * 50 + [timeout] * 50
    record = changed(
        new_record(CASE, "run"),
        **{"kind": WINDOW, "block": 0, "round": 1, "rate": 9.0, "completed": 50},
        **{"histogram": histogram(ordered), "at_least_s": timeout},
        **{"response_p50_s": 0.01, "response_p99_s": timeout},
    )
    [row] = rows([record])
    values = results_files.row_values(row)
    assert values["response_at_least_s"] == timeout <= values["response_p99_s"]  # type: ignore[operator]
    assert values["response_p50_s"] == pytest.approx(0.01, rel=0.01)
    assert record.figure("response_p99_s") is None
    assert record.figure("response_p50_s") == 0.01
