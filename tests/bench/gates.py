"""Records and plans of gates with given rates."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from offload.engine.plan import Block, Plan
from offload.engine.record import WINDOW, Record
from offload.studies.gate.rule import Gate, GateTerms
from offload.suites import Case, Origin
from tests.records import changed, new_record

ORIGIN = Origin("../main", toolkit="/other")
THREADS, PROCESSES = Case("threads", "count_sync"), Case("processes", "count_sync")
Rates = Callable[[int, int], dict[str, Any]]  # values by place and round


def plan(
    *cases: Case,
    loss: float = 0.05,
    min_rate: float | None = None,
    max_p99_s: float | None = None,
    **known: Any,
) -> Plan:
    """Return the plan of a gate against another checkout."""
    both = [each for case in cases for each in (replace(case, origin=ORIGIN), case)]
    pairs = [(n, n + 1) for n in range(0, len(both), 2)]
    blocks = tuple(Block(pair, (pair,)) for pair in pairs)
    terms = GateTerms(loss, ORIGIN.label, ("/here instead of /other",), min_rate, max_p99_s)
    return Plan("gate", tuple(both), 7, None, Gate(gate=terms, **known), blocks=blocks)


def rates(*ratios: float, sd: float = 0.02, seed: int = 3) -> Rates:
    """Return rates of 100/s in the baseline and of its ratio now, for each case, with noise."""
    rng = random.Random(seed)
    noise = [[rng.gauss(1, sd) for _ in range(2 * len(ratios))] for _ in range(200)]

    def values(place: int, number: int) -> dict[str, Any]:
        factor = ratios[place // 2] if place % 2 else 1.0
        return {"rate": 100 * factor * noise[number][place]}

    return values


def window(made: Plan, place: int, number: int, run: str = "run", **values: Any) -> Record:
    """Return the window of a case in a round."""
    known = {
        "kind": WINDOW,
        "suite": made.suite,
        "case_index": place,
        "round": number,
        "seed": made.seed,
    }
    block = next(n for n, each in enumerate(made.blocks) if place in each.cases)
    phases = {"load": 1.0} | ({"start": 1.0} if place % 2 == 0 else {})
    speed = {"python_s": 0.03, "memory_s": 0.03, "others_cpu": 0.0, "steal": 0.0}
    record = new_record(made.cases[place], run)
    return changed(record, **{**known, "block": block, "phases": phases, **speed, **values})


def records(
    made: Plan, values: Rates, rounds: Sequence[int] | int, run: str = "run"
) -> list[Record]:
    """Return the windows of all cases in rounds 1, 2, ..., or in as many for each block."""
    counts = [rounds] * len(made.blocks) if isinstance(rounds, int) else rounds
    return [
        window(made, place, number, run, **values(place, number))
        for block, count in zip(made.blocks, counts, strict=True)
        for number in range(1, count + 1)
        for place in block.cases
    ]
