"""Measure each choice again, beside the best size of the truth, and its response times.

The truth has few rounds of many servers, and its best size may be best by chance. So both are
measured again, side by side, until the difference is certain or too small to matter. The second
measurement of response times shows whether those of the answer hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.advice.choice import Confirmation
from lab.advice.disagreement import check_plan
from lab.advice.recorded_answer import RecordedAnswer
from lab.advice.truth import Truth, cases_of, short_name
from offload.bench.advice import latency
from offload.bench.advice.steps import Report
from offload.bench.advice.strategies import size_of
from offload.bench.analysis import comparison
from offload.bench.experiments.run import run
from offload.bench.planning import plan as plans
from offload.bench.planning import plan_file, planned_records
from offload.bench.planning.blocks import Block
from offload.bench.planning.plan import Plan
from offload.bench.records import journal
from offload.bench.records.record import LONG
from offload.bench.records.run_records import RunRecords
from offload.bench.target.needed_upstream import hold_for
from offload.bench.trial import builder
from offload.suites import Case

SUITE = "confirm_advice"


def plan(truths: Mapping[str, Truth], answers: Sequence[RecordedAnswer], users: int) -> Plan:
    """Return the plan: every choice, with a block for it and the best size if they differ."""
    cases: list[Case] = []
    blocks: list[Block] = []
    for answer in answers:
        if answer.task not in truths:
            continue
        place, best = len(cases), truths[answer.task].best
        sizes = [answer.size] if answer.size == best else [answer.size, best]
        cases += cases_of(answer.task, sizes, users)
        if answer.size != best:
            blocks.append(Block((place, place + 1), ((place + 1, place),)))
    return Plan(SUITE, tuple(cases), plans.new_seed(), None, True, blocks=tuple(blocks))


def measure(
    truths: Mapping[str, Truth],
    answers: Sequence[RecordedAnswer],
    users: int,
    folder: Path,
    report: Report,
) -> dict[str, Confirmation]:
    """Measure what is missing in `folder`, and return the confirmation of each choice by task.

    Raise StorageError if its plan is older than an answer.
    """
    if not plan_file.exists(folder):
        folder.mkdir(exist_ok=True)
        plan_file.save(plan(truths, answers, users), folder)
    planned = plan_file.load(folder)
    measured = {(case.task, size_of(case)) for case in planned.cases}
    chosen = {(answer.task, answer.size) for answer in answers if answer.task in truths}
    check_plan(chosen - measured, folder)
    for _ in run(planned, folder):
        pass
    _measure_response_times(planned, answers, folder, report)
    return read(planned, answers, folder)


def _measure_response_times(
    planned: Plan, answers: Sequence[RecordedAnswer], folder: Path, report: Report
) -> None:
    """Measure the missing response times of each choice, at the rates of its answer."""
    records = planned_records.read_if_any(folder)
    done = {record.trial.place for record in records if record.trial.kind == LONG}
    for place, answer in _places(planned, answers).items():
        if place in done or not answer.rate:
            continue
        report(f"response times of {short_name(answer.task)}")
        case = planned.cases[place]
        trial = builder.new_trial(
            folder.name, kind=LONG, suite=SUITE, place=place, seed=planned.seed, quick=True
        )
        with hold_for(case) as upstream:
            journal.append(folder, *latency.measure(case, answer.rate, trial, upstream))


def read(planned: Plan, answers: Sequence[RecordedAnswer], folder: Path) -> dict[str, Confirmation]:
    """Return the confirmation of each choice by task."""
    own = RunRecords(planned_records.read_if_any(folder))
    pairs = {pair[1]: pair for block in planned.blocks for pair in block.pairs}
    found = {}
    for place, answer in _places(planned, answers).items():
        loads = own.at(place).long_loads()
        verdict = None
        if place in pairs:
            best, chosen = (own.at(each).windows() for each in pairs[place])
            verdict = comparison.compare(best, chosen).verdict
        found[answer.task] = Confirmation(
            verdict, tuple(each.value for each in latency.percentiles(loads))
        )
    return found


def _places(planned: Plan, answers: Sequence[RecordedAnswer]) -> dict[int, RecordedAnswer]:
    """Return the answers by the places of their choices in the plan."""
    by_choice = {(each.task, each.size): each for each in answers}
    places = {(case.task, size_of(case)): place for place, case in enumerate(planned.cases)}
    return {places[key]: answer for key, answer in by_choice.items() if key in places}
