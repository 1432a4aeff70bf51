"""What a load showed is charged to whoever caused it."""

from __future__ import annotations

import pytest

from offload.bench.records.record import HostUse, LoadFacts, Resources
from offload.bench.trial import load_phase
from offload.loads import Figures


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_phase.psutil, "cpu_count", lambda: 4)  # type: ignore[attr-defined]


def test_the_cpu_of_all_load_processes_is_not_that_of_others(four_cores: None) -> None:
    used = Resources(cpu_s=1.0, host=HostUse(busy_s=3.2, own_cpu_s=0.1))
    tool = LoadFacts(cpu_s=1.9, busy=0.5)  # four processes, of which the busiest used 0.5 s
    shown = load_phase._resources(used, Figures(elapsed_s=1.0, completed=9), tool)
    assert shown.host.others_cpu == pytest.approx(0.05)  # 0.2 of 4 s
