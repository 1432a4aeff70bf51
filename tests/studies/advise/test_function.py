"""What the answer says of a function itself."""

from __future__ import annotations

import pytest

from offload.engine.application import HotLine, Who
from offload.engine.who import COMPUTES
from offload.studies.advise.function import Function
from tests.studies.advise.probes import probe


@pytest.mark.parametrize(
    ("wait_s", "cpu_s", "doing"), [(0.02, 0.001, "waits"), (0.001, 0.02, "computes without")]
)
def test_no_line_of_a_call_that_waits_computes_for_most_of_the_time(
    wait_s: float, cpu_s: float, doing: str
) -> None:
    line = HotLine("fetch", "shop.py", 12, 1.0, COMPUTES)
    found = Function(probe(wait_s=wait_s, cpu_s=cpu_s, hold=0.0), Who((line,)))
    assert f"fetch (shop.py:12) {doing}" in " ".join(found.why())
    [known] = found.values()["who"]
    assert known["doing"].startswith(doing)
