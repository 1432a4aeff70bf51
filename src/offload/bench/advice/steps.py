"""The steps of advice: probe the function, measure the candidates in a time budget, answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from offload.bench.advice import answer, candidates, constraints, latency, question_file
from offload.bench.advice.answer import Answer
from offload.bench.advice.inputs import calls_between_rounds, overhead_store, probe_measurement
from offload.bench.advice.inputs.calls_between_rounds import CallsBetweenRounds
from offload.bench.advice.question_file import Question
from offload.bench.experiments.run import run
from offload.bench.planning import plan_file, planned_records
from offload.bench.planning.plan import Plan
from offload.bench.records import journal
from offload.bench.records.record import LONG
from offload.bench.target.needed_upstream import hold_for
from offload.bench.trial import builder
from offload.suites import Case

LATENCY_S = 30.0  # s reserved to measure response times of the chosen strategy; a guess
SHORTEST_S = 30.0  # minimum time in s for rounds, even if less is left
Report = Callable[[str], object]


def advise(
    case: Case,
    folder: Path,
    budget_s: float,
    report: Report,
    memory_mib: float | None = None,
    p99_s: float | None = None,
    on_start: Callable[[Path], object] | None = None,
) -> Answer:
    """Advise on a strategy for the task of a case within `budget_s`; save records in `folder`.

    `on_start` is called with the folder before the candidates are measured. Raise UserError if the
    task cannot be called, or if no strategy can meet the constraints.
    """
    started = time.monotonic()
    question = prepare(case, report, memory_mib, p99_s)
    left_s = budget_s - (time.monotonic() - started) - LATENCY_S
    left_s = max(SHORTEST_S, (1 - calls_between_rounds.SHARE) * left_s)
    found = candidates.candidates(question.model, left_s)
    planned = candidates.plan(question.model, case, found, left_s)
    folder.mkdir(parents=True, exist_ok=True)
    plan_file.save(planned, folder)
    question_file.save(question, folder)
    if on_start is not None:
        on_start(folder)
    return measure(question, planned, folder, report)


def prepare(
    case: Case,
    report: Report,
    memory_mib: float | None = None,
    p99_s: float | None = None,
    overhead_rounds: int = overhead_store.ROUNDS,
) -> Question:
    """Probe the task of a case; raise UserError if it cannot be called.

    If fewer than `overhead_rounds` rounds of the strategies' overheads are stored, measure one.
    Raise RunError if no strategy can meet the constraints `memory_mib` and `p99_s`. `report` is
    called with a short text before each step.
    """
    report("calls of the function alone and in workers: 10 s")
    with hold_for(case) as upstream:
        found = probe_measurement.measure(case, upstream, case.users)
    measured = overhead_store.of_machine(report, overhead_rounds)
    question = Question(
        found,
        measured.overheads,
        case.users,
        memory_mib,
        p99_s,
        overhead_warning=measured.warning,
    )
    _check_constraints(question)
    return question


def _check_constraints(question: Question) -> None:
    alone_s, limit_mib = question.probe.call.wall_s, question.memory_mib
    constraints.check_response_time(question.p99_s, alone_s, "strategy", "the function alone")
    if limit_mib is not None and not question.model.ranking():
        least_mib = replace(question.model, memory_mib=None).predict("loop", 1).memory_mib
        raise constraints.too_little_memory(limit_mib, "strategy", "one loop", least_mib or 0.0)


def measure(question: Question, planned: Plan, folder: Path, report: Report) -> Answer:
    """Measure the candidates, then the latency of the chosen one.

    After an interrupt, the answer uses the records so far, and its `is_interrupted` is True.
    """
    is_interrupted = False
    calls = CallsBetweenRounds(question, planned.cases[0], folder)
    try:
        with calls:
            calls.measure()
            for _ in run(planned, folder):
                calls.measure()
        found = answer.evaluate(calls.question, planned, planned_records.read_if_any(folder))
        if found.chosen.rate.value is not None:
            report("response times of the best one below its capacity: 25 s")
            _measure_latency(found.chosen.case, found.chosen.rate.value, planned, folder)
    except KeyboardInterrupt:
        is_interrupted = True
    found = answer.evaluate(calls.question, planned, planned_records.read_if_any(folder))
    return replace(found, is_interrupted=is_interrupted)


def _measure_latency(case: Case, rate: float, planned: Plan, folder: Path) -> None:
    trial = builder.new_trial(
        folder.name,
        kind=LONG,
        suite=planned.suite,
        place=planned.cases.index(case),
        seed=planned.seed,
        quick=planned.quick,
    )
    with (
        hold_for(case) as upstream,
        closing(latency.measure(case, rate, trial, upstream)) as loads,
    ):
        for record in loads:  # each is saved at once: an interrupted answer has those before
            journal.append(folder, record)
