"""`offload capacity`: the highest rate of a real server that keeps a latency target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offload.engine import journal
from offload.engine.run import SHORTEST
from offload.studies.capacity import rule
from offload.studies.capacity.rule import LatencyTarget
from tests.commands import fab, fab_here

NAP_S, WORKERS = 0.05, 4
TASK = f'"""Naps."""\nimport time\n\n\ndef nap():\n    time.sleep({NAP_S})\n    return b"rested"\n'


@pytest.fixture
def nap(tmp_path: Path) -> str:
    (tmp_path / "naps.py").write_text(TASK)
    return f"{tmp_path}/naps.py:nap"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("capacity:3/sleep_sync", "no latency target given"),
        ("capacity:3/sleep_sync,p99=50ms,p95=20ms", "p95 and p99 exclude each other"),
        ("capacity:3/sleep_sync,p99=50", "is not a response time"),
        ("capacity:3/sleep_sync,p99=50ms,arrivals=bursts", "arrivals="),
        ("capacity:p99=50ms", "no case given"),
    ],
)
def test_a_wrong_target_is_refused_in_one_line(words: str, why: str) -> None:
    refused = fab_here(words)
    assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr


@pytest.mark.server
def test_a_limit_below_the_task_has_no_capacity(nap: str) -> None:
    found = fab(f"capacity:3/{nap},p99=20ms", timeout=60)
    assert found.returncode == 5
    assert "no capacity for p99 up to 20 ms" in " ".join(found.stdout.split())
    assert "use a higher limit" in found.stderr


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timing
@pytest.mark.timeout(400)
def test_the_capacity_of_four_naps_is_known_by_arithmetic(nap: str) -> None:
    found = fab(f"capacity:3/{nap},p99=100ms,format=json", timeout=360)
    assert found.returncode == 0, found.stderr
    values = json.loads(found.stdout)
    assert values["capacity"] == pytest.approx(WORKERS / NAP_S, rel=0.15)
    assert values["capacity_low"] < values["capacity"] < values["capacity_high"]
    [run] = [path.parent for path in journal.RESULTS.glob(f"*/{journal.RUN_FILE}")]
    least_s = rule.shortest_load_s(LatencyTarget(0.99, 0.1))
    assert least_s > SHORTEST
    assert all((record.case.seconds or 0.0) >= least_s for record in journal.read(run))
    repeated = fab(f"resume:{run.name},format=json", timeout=60)
    assert json.loads(repeated.stdout) == values
    assert (run / "report.html").exists()
