"""The overheads of this machine: the medians of the stored rounds, weighted with typical ones.

A round takes 30 s, and its figures differ from those of the next one by 10 to 40 %. Each answer
measures at most one round, until ROUNDS are stored, so that the first answer is not late.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from offload import cores, files
from offload.bench.advice.inputs import overhead, overhead_measurement, typical_overhead
from offload.bench.advice.inputs.overhead import Overhead
from offload.bench.advice.inputs.overhead_measurement import (
    DURATION_S,
    Overheads,
    OverheadTimeout,
)
from offload.errors import RunError
from offload.registry import places

MAX_AGE = 7 * 24 * 3600.0  # s until a round is measured again
ROUNDS = 3


@dataclass(frozen=True)
class StoredRound:
    """A stored round: the time when it was measured, in s since the epoch, and its overheads."""

    utc: float
    overheads: Mapping[str, Overhead]


def load_or_typical() -> Overheads:
    """Return the weighted medians of this machine; only typical overheads if no round is stored."""
    return _of_rounds(load())


def load_or_measure(report: Callable[[str], object], ends: float) -> Overheads:
    """Return the median overheads of this machine, weighted with typical ones.

    If fewer than ROUNDS rounds are stored, measure and store another one. If it cannot be measured
    until `ends`, a time of `time.monotonic`, use the stored rounds, or typical overheads without
    any. A round that is incomplete or disturbed is not stored, and is used only if there is no
    other one. `report` is called with a short text before the measurement, and with the reason if
    its result is not used. Raise RunError if no round is stored and this one does not have the
    overhead of a task that does nothing.
    """
    known = load()
    if len(known) >= ROUNDS or time.monotonic() + DURATION_S > ends:
        return _of_rounds(known)
    report(f"the strategies' overhead on this machine: {DURATION_S:.0f} s")
    return _with_another(known, report, ends)


def _of_rounds(known: Sequence[StoredRound]) -> Overheads:
    """Return the weighted medians of the rounds; only typical overheads without any."""
    if not known:
        return Overheads(typical_overhead.TYPICAL, are_typical=True)
    found = overhead.median([each.overheads for each in known])
    return Overheads(typical_overhead.weight_with_typical(found, len(known)))


def _with_another(
    known: Sequence[StoredRound], report: Callable[[str], object], ends: float
) -> Overheads:
    """Measure a round, store it if it is certain, and return the overheads to use; see above."""
    try:
        measured = overhead_measurement.measure(ends)
    except RunError as error:
        if not known and not isinstance(error, OverheadTimeout):
            raise
        report(f"{error.what}; {'earlier' if known else 'typical'} values are used")
        return _of_rounds(known)
    if measured.warning is None:
        known = [*known, StoredRound(time.time(), measured.overheads)]
        _save(known)
        return _of_rounds(known)
    if not known:
        return replace(
            measured, overheads=typical_overhead.weight_with_typical(measured.overheads, 1)
        )
    report(f"{measured.warning}; earlier values are used")
    return _of_rounds(known)


def load() -> list[StoredRound]:
    """Return the stored rounds of this machine, without outdated or incomplete ones.

    It is empty if the file is missing or damaged.
    """
    try:
        values = json.loads(_file().read_bytes())
        if values["machine"] != _machine():
            return []
        found = [
            StoredRound(float(each["utc"]), overhead.read(each["overheads"]))
            for each in values["rounds"]
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
    now = time.time()
    return [
        each
        for each in found
        if 0 <= now - each.utc <= MAX_AGE and overhead.is_complete(each.overheads)
    ]


def _machine() -> list[object]:
    """Return the properties of the machine, besides its speed, that affect the figures."""
    return [platform.node(), os.cpu_count(), cores.capacity(), sys.version]


def _file() -> Path:
    """Return the file of this machine, interpreter and number of CPUs, such as that of cpus=1."""
    digest = hashlib.sha256(json.dumps(_machine()).encode()).hexdigest()
    return places.cache() / f"overheads-{digest[:12]}.json"


def _save(rounds: Sequence[StoredRound]) -> None:
    values = {"machine": _machine(), "rounds": [asdict(each) for each in rounds]}
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, json.dumps(values, indent=1).encode() + b"\n")
    except OSError:  # only a cache: the next answer measures again
        return
