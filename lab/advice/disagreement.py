"""Measure the strategies of answers that disagree: they may be equally fast.

The truth has four rounds, and its best strategy may be best by chance. So if the answers to a
function name several strategies, these are measured again, side by side and in up to 40 rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lab.advice.recorded_answer import RecordedAnswer
from lab.advice.truth import cases_of, short_name
from offload.bench.advice.strategies import Size
from offload.bench.analysis import comparison
from offload.bench.experiments.run import run
from offload.bench.planning import plan as plans
from offload.bench.planning import plan_file, planned_records
from offload.bench.planning.blocks import Block
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import sequential
from offload.bench.stats.paired_test import DISTURBED, SLOWER
from offload.errors import StorageError
from offload.suites import Case

SUITE = "disagreement"
FEWEST = sequential.NORMAL.counts[0]  # rounds of a comparison


def find(answers: Sequence[RecordedAnswer]) -> dict[str, list[Size]]:
    """Return the functions whose answers disagree, and the most common size of each strategy."""
    named: dict[str, dict[str, Counter[Size]]] = {}
    for answer in answers:
        sizes = named.setdefault(answer.task, {}).setdefault(answer.strategy, Counter())
        sizes[answer.size] += 1
    return {
        task: [sizes.most_common(1)[0][0] for sizes in strategies.values()]
        for task, strategies in named.items()
        if len(strategies) > 1
    }


def plan(found: Mapping[str, Sequence[Size]], users: int) -> Plan:
    """Return the plan: one block for each function, in which all pairs are compared."""
    cases: list[Case] = []
    blocks: list[Block] = []
    for task, sizes in found.items():
        places = range(len(cases), len(cases) + len(sizes))
        pairs = tuple((one, other) for one in places for other in places if one < other)
        cases += cases_of(task, sizes, users)
        blocks.append(Block(tuple(places), pairs))
    return Plan(SUITE, tuple(cases), plans.new_seed(), None, blocks=tuple(blocks))


def measure(answers: Sequence[RecordedAnswer], users: int, folder: Path) -> None:
    """Measure what is missing in `folder`; nothing if all answers agree.

    Raise StorageError if its plan is older than an answer that disagrees.
    """
    found = find(answers)
    if not found:
        return
    if not plan_file.exists(folder):
        folder.mkdir(exist_ok=True)
        plan_file.save(plan(found, users), folder)
    planned = plan_file.load(folder)
    measured = {(case.task, case.server) for case in planned.cases}
    named = {(task, strategy) for task, sizes in found.items() for strategy, _ in sizes}
    check_plan(named - measured, folder)
    for _ in run(planned, folder):
        pass


def check_plan(missing: Collection[tuple[str, object]], folder: Path) -> None:
    """Raise StorageError if the plan in `folder` has no case for some choices.

    `missing` are these choices, each with its task.
    """
    if missing:
        first = min(task for task, _ in missing)
        what = f"the plan in {folder} is older than an answer for {short_name(first)}"
        raise StorageError(what, f"remove {folder}, and repeat the command")


def read_ties(folder: Path) -> set[str]:
    """Return the functions for which no strategy is certainly faster than all others.

    A function is not among them if one of its comparisons was disturbed or has too few rounds.
    """
    planned = plan_file.load(folder)
    own = RunRecords(planned_records.read_if_any(folder, planned))
    windows = {place: own.at(place).windows() for place in range(len(planned.cases))}
    return {
        planned.cases[block.cases[0]].task
        for block in planned.blocks
        if _is_tie([windows[place] for place in block.cases])
    }


def _is_tie(cases: Sequence[Sequence[Record]]) -> bool:
    """Whether none of several cases is certainly faster than each other one."""
    verdicts = [
        [comparison.compare(one, other).verdict for other in cases if other is not one]
        for one in cases
    ]
    known = all(v.pairs >= FEWEST and v.outcome != DISTURBED for own in verdicts for v in own)
    return known and not any({v.outcome for v in own} == {SLOWER} for own in verdicts)
