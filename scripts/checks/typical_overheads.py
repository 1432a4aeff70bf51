"""Measure the typical values in offload/bench/advice/inputs/typical_overhead.py.

Usage: python -m scripts.checks.typical_overheads [ROUNDS]

ROUNDS rounds of the strategies' overheads are measured (default: 15, 8 minutes). A disturbed or
incomplete round is reported and not used. The medians are printed as the lines of TYPICAL, also
after an interrupt. The exit code is 7 if no round was valid.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from offload.bench.advice.inputs import overhead, overhead_measurement
from offload.bench.advice.inputs.overhead import Overhead
from offload.bench.advice.inputs.typical_overhead import TypicalOverhead
from offload.bench.advice.strategies import STRATEGIES
from offload.cli import arguments
from offload.errors import RunError, UndecidedError
from scripts.script import run

ROUNDS = 15


def main(words: list[str]) -> int:
    """Measure, print, and return the exit code."""
    count = arguments.whole_number("ROUNDS", words[0], 1, 1000) if words else ROUNDS
    valid: list[dict[str, Overhead]] = []
    try:
        for number in range(1, count + 1):
            problem = _add_round(valid)
            print(f"round {number} of {count}: {problem or 'valid'}", flush=True)
    finally:
        for line in lines(valid):
            print(line)
    return 0 if valid else UndecidedError.exit_code


def _add_round(valid: list[dict[str, Overhead]]) -> str | None:
    """Measure a round and add it if it is valid; otherwise return the problem."""
    try:
        measured = overhead_measurement.measure()
    except RunError as error:
        return str(error)
    if measured.warning is None and overhead.is_complete(measured.overheads):
        valid.append(dict(measured.overheads))
    return measured.warning


def lines(rounds: Sequence[dict[str, Overhead]]) -> list[str]:
    """Return the lines of TYPICAL from complete rounds; empty without rounds."""
    if not rounds:
        return []
    return [f'"{name}": {_typical([each[name] for each in rounds])},' for name in STRATEGIES]


def _typical(found: Sequence[Overhead]) -> TypicalOverhead:
    """Return the median multiples of the CPU time of a task that does nothing."""
    computing = [(each.computing, each.cpu_s) for each in found if each.computing is not None]
    idle = [each.idle_s / each.cpu_s for each in found if each.idle_s is not None]
    return TypicalOverhead(
        serial=round(statistics.median(part.serial_s / cpu_s for part, cpu_s in computing), 2),
        cpu=round(statistics.median(part.cpu_s / cpu_s for part, cpu_s in computing), 2),
        idle=round(statistics.median(idle), 2) if idle else None,
    )


if __name__ == "__main__":
    run(main)
