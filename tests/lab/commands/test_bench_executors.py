"""`python -m lab bench_executors` in its shortest form reports figures for every installed pool."""

from __future__ import annotations

import json

import pytest

from tests.lab.running import lab

# In the lane of timing, for what it measures is this machine.
pytestmark = [pytest.mark.timing, pytest.mark.slow, pytest.mark.timeout(900)]
STANDARD = {"thread", "process", "process fork", "process spawn", "multiprocessing.Pool"}
OURS = {"PipePool", "PipeExecutor"}
LIMITS = {"event loop", "socket pair", "awake pair"}


def test_every_pool_is_measured_against_the_standard_one() -> None:
    said = lab("bench_executors", "quick=yes", "format=json", timeout=880)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    assert "2 workers a pool" in told["environment"]
    cells = {(c["pool"], c["size"], c["concurrency"]): c for c in told["cells"]}
    both = {(pool, concurrency) for pool in STANDARD | OURS for concurrency in (1, 64)}
    for pool, concurrency in both | {("socket pair", 1), ("event loop", 64)}:
        cell = cells[pool, "no-op", concurrency]
        assert cell["rate"] > 0
        assert 0 < cell["p50_us"] <= cell["p99_us"]
        assert cell["rounds"] >= 1
    assert {pool for pool, _, _ in cells} >= STANDARD | OURS | LIMITS
    assert all(cells["process", "no-op", concurrency]["times"] == 1 for concurrency in (1, 64))
    fastest = max(STANDARD | {"event loop"}, key=lambda pool: cells[pool, "no-op", 64]["rate"])
    assert fastest == "event loop"  # which has no hop at all
    here = {line["pool"] for line in told["pools"]}
    assert here >= STANDARD | OURS


def test_what_a_pool_adds_to_a_request_is_measured() -> None:
    said = lab("bench_executors", "quick=yes", "http=yes", "format=json", timeout=880)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    servers = {each["server"]: each for each in told["servers"]}
    assert servers.keys() >= {"loop", "threads", "processes", "pipes"}
    assert servers.keys() & told["missing"].keys() == set()
    assert all(each["rate"] > 0 and each["cpu_us"] > 0 for each in servers.values())
    assert servers["loop"]["added_us"] is None
    for name in ("threads", "processes", "pipes"):
        added, low, high = servers[name]["added_us"]
        assert low <= added <= high
    assert servers["processes"]["added_us"][0] > 0
    assert "python=3.14" in told["missing"].get("interpreters", "python=3.14")
