"""Overheads that were kept are used for a time, unless the clock has jumped back since."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.advice import overhead
from offload.bench.advice.strategies import STRATEGIES
from tests.advice.probes import OVERHEADS

ONE = OVERHEADS["threads"]
KEPT = {name: replace(ONE, waiting=None if name == "loop" else ONE) for name in STRATEGIES}


@pytest.mark.parametrize(("age_s", "is_used"), [(60.0, True), (1e9, False), (-3600.0, False)])
def test_overheads_of_another_time_are_measured_again(
    age_s: float, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    overhead._save(KEPT)
    values = json.loads((tmp_path / "overheads.json").read_text())
    (tmp_path / "overheads.json").write_text(json.dumps({**values, "utc": values["utc"] - age_s}))
    assert (overhead.load() is not None) is is_used


@pytest.mark.parametrize(
    "damage",
    [{"python_s": 0}, {"python_s": float("nan")}, {"serial_s": -1}, {"waiting": None}],
)
def test_damaged_overheads_are_measured_again(
    damage: dict[str, float | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    overhead._save(KEPT)
    values = json.loads((tmp_path / "overheads.json").read_text())
    if "python_s" not in damage:
        values["overheads"]["threads"] |= damage
    else:
        values |= damage
    (tmp_path / "overheads.json").write_text(json.dumps(values))
    assert overhead.load() is None


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.timeout(180)
def test_measured_overheads_are_those_of_workers_that_compute_and_that_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    found = overhead.measure()
    assert [*found] == [*STRATEGIES]
    assert found["loop"].waiting is None
    for name in STRATEGIES[1:]:
        waiting = found[name].waiting
        assert waiting is not None
        assert found[name].cpu_s / 3 < waiting.cpu_s < 30 * found[name].cpu_s
        assert 0 < waiting.serial_s < 0.1
    kept = overhead.load()
    assert kept is not None and kept.keys() == found.keys()
