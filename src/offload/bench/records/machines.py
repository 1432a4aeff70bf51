"""The machines of a run: their facts are stored once, in run.json, together with the plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offload import files

FILE = "run.json"
KEY = "machines"
MAX_MIB = 16  # of the file: larger ones take seconds to parse
IDENTITY = ("cpu", "cores", "kernel", "virtualisation")
LARGEST = 1e9  # number of cores or GiB in a file that somebody may have edited


def keep(folder: Path, environment: Mapping[str, object]) -> str:
    """Save a machine's facts in a run's folder if they are missing; return the machine's name.

    Raise OSError.
    """
    text = json.dumps(environment, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    known = read(folder)
    if name not in known:
        values = {**_values(folder), KEY: {**known, name: environment}}
        files.replace(folder / FILE, json.dumps(values, indent=1).encode() + b"\n")
    return name


def read(folder: Path) -> dict[str, Mapping[str, object]]:
    """Return the machines of a run by name; empty if run.json is missing or unreadable.

    Implausible facts, which an edited file may have, are omitted.
    """
    found = _values(folder).get(KEY)
    if not isinstance(found, dict):
        return {}
    return {
        name: {key: value for key, value in facts.items() if _is_plausible(key, value)}
        for name, facts in found.items()
        if isinstance(facts, dict)
    }


def difference(one: Mapping[str, object], here: Mapping[str, object]) -> str | None:
    """Return the first difference of two machines, `cores: 8, here 2`; None if they are alike."""
    for name in IDENTITY:
        if one.get(name) != here.get(name):
            return f"{name}: {one.get(name)}, here {here.get(name)}"
    return None


def is_identified(machine: Mapping[str, object]) -> bool:
    """Whether a property is known by which machines are distinguished."""
    return any(machine.get(name) is not None for name in IDENTITY)


def _is_plausible(key: str, value: object) -> bool:
    if key == "packages":
        return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    if key in ("cores", "memory_gib"):
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return 0 < value <= LARGEST
    return value is None or isinstance(value, str)


def _values(folder: Path) -> dict[str, Any]:
    try:
        values = files.parse_json(files.read(folder / FILE, max_mib=MAX_MIB))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
