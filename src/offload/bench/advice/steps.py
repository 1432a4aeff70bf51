"""The steps of advice: probe the function, measure the candidates in a time budget, answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from offload.bench.advice import (
    answer,
    candidates,
    constraints,
    latency,
    other_pythons,
    question_file,
)
from offload.bench.advice.answer import Answer, Option
from offload.bench.advice.inputs import calls_between_rounds, overhead_store, probe_measurement
from offload.bench.advice.inputs.calls_between_rounds import CallsBetweenRounds
from offload.bench.advice.inputs.overhead_measurement import Overheads
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.inputs.probe_measurement import InterruptedProbe
from offload.bench.advice.question_file import Question
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.experiments.run import run
from offload.bench.planning import plan_file, planned_records
from offload.bench.planning.plan import Plan
from offload.bench.records import journal
from offload.bench.records.record import LONG
from offload.bench.target.needed_upstream import hold_for
from offload.bench.trial import builder
from offload.errors import RunError
from offload.suites import Case

MOST_WITH_LATENCY = 3  # candidates whose response times are measured if the p99 is missed
LATENCY_S = 24.0  # s reserved to measure response times of the chosen strategy; a guess
SHORTEST_LATENCY_S = 12.0  # s that must be left for those of the next best one; a guess
ENDING_S = 2.0  # s reserved to end the server and to print the answer; a guess
SHORTEST_S = 30.0  # minimum time in s for rounds, even if less is left
ONE_LOOP = "by the prediction, one loop"  # the strategy that needs the least memory
Report = Callable[[str], object]


def advise(
    case: Case,
    folder: Path,
    budget_s: float,
    report: Report,
    memory_mib: float | None = None,
    p99_s: float | None = None,
    on_start: Callable[[Path], object] | None = None,
    pythons: Sequence[str] = (),
    cpus: int | None = None,
) -> Answer:
    """Advise on a strategy for the task of a case within `budget_s`; save records in `folder`.

    `on_start` is called with the folder before the candidates are measured. `pythons` are other
    interpreters for which the best strategy is predicted. `cpus` is the number of CPUs to which
    the caller has restricted everything, for the commands in the answer. Raise UserError if the
    task cannot be called, or if no strategy can meet the constraints. After an interrupt, return
    the answer from the records so far, or a prediction before there are any; its `is_interrupted`
    is True.
    """
    started = time.monotonic()

    def step(text: str) -> None:
        left_s = started + budget_s - time.monotonic()
        report(f"{text}; about {left_s:.0f} s until the answer" if left_s > 1 else text)

    overhead_deadline = started + budget_s - SHORTEST_S - LATENCY_S
    question, is_interrupted = _measure_question(
        case, step, overhead_deadline, memory_mib, p99_s, pythons
    )
    question = replace(question, cpus=cpus)
    if is_interrupted:
        return replace(answer.predict(question, case), is_interrupted=True)
    left_s = budget_s - (time.monotonic() - started) - LATENCY_S
    left_s = max(SHORTEST_S, (1 - calls_between_rounds.SHARE) * left_s)
    found = candidates.select(question.model, left_s)
    planned = candidates.plan(question.model, case, found, left_s)
    folder.mkdir(parents=True, exist_ok=True)
    plan_file.save(planned, folder)
    question_file.save(question, folder)
    if on_start is not None:
        on_start(folder)
    return measure(question, planned, folder, step, started + budget_s - ENDING_S)


def predict(case: Case, report: Report) -> Answer:
    """Predict the best strategy for the task of a case without a server; raise UserError.

    The overheads are those of this machine if they are stored; otherwise typical ones. After an
    interrupt, the prediction is from the calls until then, and its `is_interrupted` is True.
    """
    probe, is_interrupted = _probe(case, report)
    question = _question(case, probe, overhead_store.load_or_typical())
    return replace(answer.predict(question, case), is_interrupted=is_interrupted)


def _measure_question(
    case: Case,
    report: Report,
    overhead_deadline: float,
    memory_mib: float | None,
    p99_s: float | None,
    pythons: Sequence[str],
) -> tuple[Question, bool]:
    """Return the question, and whether the user interrupted its measurements; raise UserError.

    `overhead_deadline` is the time of `time.monotonic` by which the measurement of the overheads
    must end. After an interrupt, what was not measured is typical or missing.
    """
    probe, is_interrupted = _probe(case, report)
    constraints.check_response_time(p99_s, probe.call.wall_s, "strategy", "the function alone")
    known = overhead_store.load_or_typical()
    if not is_interrupted:
        try:
            known = overhead_store.load_or_measure(report, overhead_deadline)
        except KeyboardInterrupt:
            is_interrupted = True
    question = _question(case, probe, known, memory_mib, p99_s)
    if not is_interrupted:
        try:
            others = tuple(other_pythons.predict(case, question, pythons, report))
            question = replace(question, pythons=others)
        except KeyboardInterrupt:
            is_interrupted = True
    return question, is_interrupted


def _probe(case: Case, report: Report) -> tuple[Probe, bool]:
    """Return the probe of a case's task, and whether the user interrupted it.

    Raise UserError if it cannot be called, and KeyboardInterrupt if too little is known.
    """
    report("calls of the function alone and in workers: 10 s")
    try:
        with hold_for(case) as upstream:
            return probe_measurement.measure(case, upstream, case.users), False
    except InterruptedProbe as interrupt:
        return interrupt.probe, True


def _question(
    case: Case,
    probe: Probe,
    known: Overheads,
    memory_mib: float | None = None,
    p99_s: float | None = None,
) -> Question:
    """Return the question; raise RunError if no strategy fits into the memory."""
    question = Question(
        probe,
        known.overheads,
        case.users,
        memory_mib,
        p99_s,
        overhead_warning=known.warning,
        are_overheads_typical=known.are_typical,
    )
    if all(map(question.model.fails_in, STRATEGIES)):
        what = f"{case.task} fails in every strategy if several calls run at once"
        raise RunError(what, "fix the function first")
    if memory_mib is not None and not question.model.ranking():
        least_mib = replace(question.model, memory_mib=None).predict("loop", 1).memory_mib
        raise constraints.too_little_memory(memory_mib, "strategy", ONE_LOOP, least_mib or 0.0)
    return question


def measure(question: Question, planned: Plan, folder: Path, report: Report, ends: float) -> Answer:
    """Measure the candidates, then the latency of the chosen one and of the next best until `ends`.

    `ends` is a time of `time.monotonic`. If the chosen one misses the required p99, others are
    measured after it, each for LATENCY_S. After an interrupt, the answer uses the records so far,
    and its `is_interrupted` is True.
    """

    def evaluate() -> Answer:
        records = planned_records.read_if_any(folder)
        return answer.evaluate(calls.question, planned, records)

    is_interrupted = False
    calls = CallsBetweenRounds(question, planned.cases[0], folder)
    try:
        with calls:
            calls.measure()
            for _ in run(planned, folder):
                calls.measure()
        measured: list[Case] = []
        while (option := _next_for_latency(found := evaluate(), measured, ends)) is not None:
            name = "the best one" if option is found.chosen else option.strategy
            is_beyond_budget = bool(measured) and found.chosen.missed_p99 is not None
            until = time.monotonic() + LATENCY_S if is_beyond_budget else ends
            report(f"response times of {name} below its capacity: up to {latency.TOTAL_S:.0f} s")
            _measure_latency(option, planned, folder, until)
            measured.append(option.case)
    except KeyboardInterrupt:
        is_interrupted = True
    return replace(evaluate(), is_interrupted=is_interrupted)


def _next_for_latency(found: Answer, measured: Sequence[Case], ends: float) -> Option | None:
    """Return the candidate whose response times are measured next.

    It is the chosen one; then the best one of each other strategy, until one meets the required p99
    or MOST_WITH_LATENCY are measured. If the chosen one meets it, or none is required, it is the
    next best one, if there is time until `ends`. None if no other one is needed or known.
    """
    chosen = found.chosen
    if chosen.case not in measured:
        return None if chosen.rate.value is None else chosen
    if chosen.missed_p99 is None:
        has_time = time.monotonic() + SHORTEST_LATENCY_S < ends
        return found.next_best if len(measured) == 1 and has_time else None
    if len(measured) == MOST_WITH_LATENCY:
        return None
    known = {case.server for case in measured}
    return next((each for each in found.others if each.strategy not in known), None)


def _measure_latency(option: Option, planned: Plan, folder: Path, until: float) -> None:
    """Measure the response times of a candidate until `until`; save each record at once."""
    case, rate = option.case, option.rate.value or 0.0
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
        closing(latency.measure(case, rate, trial, upstream, until=until)) as loads,
    ):
        for record in loads:
            journal.append(folder, record)
