"""Constraints that no strategy can meet end an advice before anything is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offload.bench.advice import steps
from offload.bench.advice.inputs import probe_measurement
from offload.bench.advice.inputs.overhead_measurement import Overheads
from offload.cli import usable_cpus
from offload.errors import RunError, UsageError
from offload.suites import Case
from tests.bench.advice.answers import QUESTION

CASE = Case("threads", "sleep_sync", users=25)


def test_a_response_time_below_that_of_the_function_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steps_of_advice: list[str] = []
    monkeypatch.setattr(probe_measurement, "measure", lambda *_: QUESTION.probe)
    with pytest.raises(RunError) as raised:
        steps.advise(CASE, tmp_path, 120.0, steps_of_advice.append, p99_s=0.005)
    text = "no strategy reaches a p99 of 5 ms: the function alone takes 50 ms"
    assert str(raised.value) == f"{text}: make it faster, or increase p99="
    assert raised.value.exit_code == 5
    assert len(steps_of_advice) == 1, "the overheads were measured before this is reported"


def test_a_memory_limit_that_one_loop_exceeds() -> None:
    overheads = Overheads(QUESTION.overheads)
    assert steps._question(CASE, QUESTION.probe, overheads, 500.0).memory_mib == 500
    with pytest.raises(
        RunError, match=r"no strategy fits into 3 MiB: by the prediction, one loop needs .* MiB"
    ):
        steps._question(CASE, QUESTION.probe, overheads, 3.0)


def test_cpus_restricts_a_process_and_its_children() -> None:
    child = "import os; print(len(os.sched_getaffinity(0)))"
    program = f"""
import subprocess, sys
from offload.cli import usable_cpus
usable_cpus.restrict(usable_cpus.parse("1"))
subprocess.run([sys.executable, "-c", {child!r}])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "1\n", done.stderr


def test_a_quota_has_its_own_command() -> None:
    with pytest.raises(UsageError, match=r"cpus=0.5 is a quota.*CPUQuota=50%"):
        usable_cpus.parse("0.5")
