"""Measure the strategies of answers that disagree: they may be equally fast.

The truth has four rounds, and its best strategy may be best by chance. So if the answers to a
function name several strategies, these are measured again, side by side and in up to 40 rounds.

These rounds take a few minutes. On a shared machine, the ratio of two strategies may change from
one such period to the next by more than its interval in either. So each answer, in which both were
measured, too, counts as a period of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from offload.bench.advice.check.recorded_answer import RecordedAnswer
from offload.bench.advice.check.truth import cases_of, short_name
from offload.bench.advice.strategies import Size, size_of
from offload.bench.analysis import comparison
from offload.bench.experiments.run import run
from offload.bench.planning import plan as plans
from offload.bench.planning import plan_file, planned_records
from offload.bench.planning.blocks import Block
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import paired_test, sequential
from offload.bench.stats.paired_test import DISTURBED, SLOWER, Verdict
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
    """Raise StorageError if the plan in `folder` has no case for some choices, given with tasks."""
    if missing:
        first = min(task for task, _ in missing)
        what = f"the plan in {folder} is older than an answer for {short_name(first)}"
        raise StorageError(what, f"remove {folder}, and repeat the command")


def read_ties(folder: Path, answers: Sequence[RecordedAnswer]) -> set[str]:
    """Return the functions for which no strategy is certainly faster than all others.

    A strategy is certainly faster if it is so in the rounds of the last measurement, and over all
    periods (see `periods`). A function is not among them if one of its comparisons was disturbed or
    has too few rounds.
    """
    planned = plan_file.load(folder)
    own = RunRecords(planned_records.read_if_any(folder, planned))
    found = set()
    for block in planned.blocks:
        task = planned.cases[block.cases[0]].task
        windows = {size_of(planned.cases[n]): own.at(n).windows() for n in block.cases}
        if _is_tie(windows, [each for each in answers if each.task == task]):
            found.add(task)
    return found


def periods(
    one: Size, other: Size, last: Verdict, answers: Sequence[RecordedAnswer]
) -> list[tuple[float, float]]:
    """Return the relative rates of two sizes, for each answer with both and the `last` verdict."""
    found = [] if last.ratio is None else [(1.0, last.ratio)]
    for answer in answers:
        known = {(each.strategy, each.workers): each.ratio for each in answer.ratios}
        known[answer.size] = 1.0
        if one in known and other in known:
            found.append((known[one], known[other]))
    return found


def _is_tie(windows: Mapping[Size, Sequence[Record]], answers: Sequence[RecordedAnswer]) -> bool:
    """Whether none of several sizes is certainly faster than each other one."""
    verdicts = {
        (one, other): comparison.compare(windows[one], windows[other]).verdict
        for one in windows
        for other in windows
        if one != other
    }
    if any(v.pairs < FEWEST or v.outcome == DISTURBED for v in verdicts.values()):
        return False
    slower = {
        (one, other)
        for (one, other), verdict in verdicts.items()
        if verdict.outcome == SLOWER and _is_slower(periods(one, other, verdict, answers))
    }
    return not any(
        all((one, other) in slower for other in windows if other != one) for one in windows
    )


def _is_slower(found: Sequence[tuple[float, float]]) -> bool:
    """Whether the second rate is certainly lower over all periods; True if they are too few."""
    return len(found) < FEWEST or paired_test.compare(found).outcome == SLOWER
