"""The memory of a server that is idle again, before and after a garbage collection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offload.engine import builder
from offload.engine.processes import measure_idle_memory
from offload.engine.run import measure_open_loops
from offload.loads import Arrivals
from offload.suites import Case
from tests.waiting import read_line

CYCLES = """
import gc
gc.disable()
def quote():
    kept = [b"x" * (1 << 20)]
    kept.append(kept)
    return b"1"
"""


@pytest.mark.server
@pytest.mark.parametrize(
    ("server", "settings"),
    [
        ("loop", {}),
        ("threads", {"workers": 2, "processes": 2}),
        ("processes", {"workers": 2}),
        ("pipes", {"workers": 2}),
    ],
)
def test_garbage_of_all_processes_is_collected_after_the_load(
    server: str, settings: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(CYCLES)
    case = Case(server, f"{tmp_path}/shop.py:quote", users=4, settings=settings)
    trial = builder.new_trial("run")
    loads = measure_open_loops(case, [Arrivals(100.0, "poisson")], trial, None, duration_s=2.0)
    [record] = loads
    memory = record.resources.memory
    assert record.problem is None, record.problem
    assert memory.after_mib is not None and memory.collected_mib is not None
    assert memory.collected_mib < memory.after_mib - 50  # of about 200 requests of 1 MiB


@pytest.mark.server
def test_a_process_without_a_handler_is_left_alone() -> None:
    code = "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        read_line(other.stdout)
        before, after = measure_idle_memory(other.pid)
        assert before is not None and after is not None and after > 1
        assert other.poll() is None
        other.communicate(b"\n", timeout=10)
    assert other.returncode == 0
    assert measure_idle_memory(other.pid) == (None, None)
