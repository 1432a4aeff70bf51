"""The files of a soak in results/: its findings, and the readings from which they follow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from lab.soak.finding import Finding
from lab.soak.growth import Series
from lab.soak.plan import Plan
from lab.soak.readings import Totals
from lab.soak.trend import Trend
from offload import files
from offload.errors import StorageError

FILE, READINGS = "soak.json", "readings.json"


def save(folder: Path, plan: Plan, environment: object, findings: Sequence[Finding]) -> None:
    """Write the findings to the folder of a run; raise StorageError."""
    values = {
        "plan": asdict(plan),
        "environment": environment,
        "findings": [asdict(each) for each in findings],
    }
    _write(folder / FILE, json.dumps(values, indent=1))


def save_readings(folder: Path, series: Mapping[str, Series]) -> None:
    """Write the readings, from which the trends follow; raise StorageError."""
    values = {
        name: {
            "s": [round(at - each.at[0], 3) for at in each.at],
            "grown_kib": each.grown_kib,
            **{key: [asdict(one)[key] for one in each.all] for key in asdict(each.all[0])},
        }
        for name, each in series.items()
        if each.all
    }
    _write(folder / READINGS, json.dumps(values))


def load(path: Path) -> tuple[Plan, dict[str, object], list[Finding]]:
    """Return the plan, the environment and the findings of a file."""
    values = json.loads(path.read_bytes())
    findings = [
        Finding(
            **{
                **each,
                **{key: Totals(**each[key]) for key in ("before", "after")},
                **{key: _trend(each[key]) for key in ("memory", "descriptors", "threads")},
            }
        )
        for each in values["findings"]
    ]
    planned = Plan(**{**values["plan"], "servers": tuple(values["plan"]["servers"])})
    return planned, values["environment"], findings


def _trend(values: Mapping[str, float] | None) -> Trend | None:
    return None if values is None else Trend(**values)


def _write(path: Path, text: str) -> None:
    try:
        files.replace(path, text.encode() + b"\n")
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise StorageError(what, "check permissions and disk space") from error
