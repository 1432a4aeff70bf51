"""Workers are killed while stress-ng uses the machine: within limits, and not without stress-ng."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest

from lab.faults import lab
from lab.faults.lab import ROWS
from lab.faults.machine import pressure
from lab.faults.machine.processes import descendants, is_gone
from lab.faults.row import SMALL
from tests.waiting import wait_until

pytestmark = pytest.mark.server
needs_tool = pytest.mark.skipif(
    shutil.which(pressure.TOOL) is None, reason="stress-ng is not installed: make test-all"
)


def cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes)


@needs_tool
@pytest.mark.timing
def test_the_pressure_is_limited_and_ends() -> None:
    with pressure.pressure() as pid:
        found = descendants(pid)
        assert 2 <= len(found) <= pressure.MOST_CPUS + 2  # the worker of memory has a child
        assert wait_until(lambda: cpu_s(found) > 0.1)
    assert wait_until(lambda: all(map(is_gone, found)))
    assert not psutil.pid_exists(pid)


@needs_tool
@pytest.mark.timing
@pytest.mark.timeout(120)
def test_no_request_fails_under_pressure() -> None:
    found = lab.run(ROWS["R1-pressure"], "pipes", SMALL)
    assert found.is_kept is True, found.figure


@pytest.mark.parametrize(
    ("program", "figure"),
    [
        (None, "stress-ng is not installed: make suites installs it"),
        ('#!/bin/sh\necho "$@" > words\nexit 3\n', "stress-ng ended early, with exit code 3"),
    ],
)
def test_the_row_is_not_available_without_pressure(
    program: str | None, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program is not None:
        (tmp_path / pressure.TOOL).write_text(program)
        (tmp_path / pressure.TOOL).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = lab.run(ROWS["R1-pressure"], "pipes", SMALL)
    assert (found.is_kept, found.is_broken, found.figure) == (None, False, figure)
    if program is not None:
        words = (tmp_path / "words").read_text()
        assert "--vm 1 --vm-bytes 256m --timeout 120s" in words
