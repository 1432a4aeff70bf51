"""Overheads that were kept are used for a time, unless the clock has jumped back since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offload.bench.advice import overhead
from offload.bench.advice.strategies import STRATEGIES
from tests.advice.probes import OVERHEADS


@pytest.mark.parametrize(("age_s", "is_used"), [(60.0, True), (1e9, False), (-3600.0, False)])
def test_overheads_of_another_time_are_measured_again(
    age_s: float, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    overhead._save(dict.fromkeys(STRATEGIES, OVERHEADS["threads"]))
    values = json.loads((tmp_path / "overheads.json").read_text())
    (tmp_path / "overheads.json").write_text(json.dumps({**values, "utc": values["utc"] - age_s}))
    assert (overhead.load() is not None) is is_used


@pytest.mark.parametrize("damage", [{"python_s": 0}, {"python_s": float("nan")}, {"serial_s": -1}])
def test_damaged_overheads_are_measured_again(
    damage: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    overhead._save(dict.fromkeys(STRATEGIES, OVERHEADS["threads"]))
    values = json.loads((tmp_path / "overheads.json").read_text())
    if "serial_s" in damage:
        values["overheads"]["loop"] |= damage
    else:
        values |= damage
    (tmp_path / "overheads.json").write_text(json.dumps(values))
    assert overhead.load() is None
