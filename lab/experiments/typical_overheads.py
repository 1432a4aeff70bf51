"""Measure the typical values in offload/bench/advice/inputs/typical_overhead.py.

Usage: python -m lab typical_overheads [ROUNDS]

ROUNDS rounds of the strategies' overheads are measured (default: 15, 8 minutes). A disturbed or
incomplete round is reported and not used. The medians are printed as the lines of TYPICAL, also
after an interrupt. The exit code is 7 if no round was valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from offload.bench.advice.inputs import overhead, overhead_measurement
from offload.bench.advice.inputs.overhead import Overhead
from offload.bench.advice.inputs.typical_overhead import PYTHON_S
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
        measured = overhead_measurement.measure(math.inf)
    except RunError as error:
        return str(error)
    if measured.warning is None and overhead.is_complete(measured.overheads):
        valid.append(dict(measured.overheads))
    return measured.warning


def lines(rounds: Sequence[dict[str, Overhead]]) -> list[str]:
    """Return the lines of TYPICAL from complete rounds; empty without rounds."""
    if not rounds:
        return []
    return [f'"{name}": {_typical(found)},' for name, found in overhead.median(rounds).items()]


def _typical(found: Overhead) -> str:
    """Return the call of `typical_overhead._typical` for a complete overhead."""
    known = found.at(PYTHON_S)
    pairs = [known.computing, known.megabyte, known.waiting]
    words = [f"{_us(known.serial_s)}, {_us(known.cpu_s)}"]
    words += [f"({_us(each.serial_s)}, {_us(each.cpu_s)})" for each in pairs if each is not None]
    words += [] if known.idle_s is None else [_us(known.idle_s)]
    return f"_typical({', '.join(words)})"


def _us(time_s: float) -> str:
    """Return a time in microseconds with three significant digits."""
    return f"{float(f'{time_s * 1e6:.3g}'):.0f}"


if __name__ == "__main__":
    run(main)
