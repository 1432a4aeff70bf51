"""Build answers of every kind from synthetic probes and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from offload.bench.advice import answer, candidates
from offload.bench.advice.answer import Answer
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.question_file import Question
from offload.bench.advice.strategies import Size
from offload.bench.planning.plan import Plan
from offload.bench.records.record import LONG, WINDOW, Record
from offload.loads.engine.figures.histogram import histogram
from offload.suites import Case
from tests.bench.advice.probes import OVERHEADS, probe
from tests.records import changed, new_record

PYTHON = probe(wait_s=0.0, cpu_s=0.05, hold=1.0)
QUESTION = Question(PYTHON, OVERHEADS, 25)
CASE = Case("threads", "quote")
STEADY = (1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.0)
WILD = (0.7, 1.3, 1.0)


def planned(*sizes: Size, question: Question = QUESTION) -> Plan:
    """Return the plan of candidates."""
    model = question.model
    return candidates.plan(model, CASE, [model.predict(*each) for each in sizes], 80.0)


def measured(plan: Plan, rates: Mapping[int, Sequence[float]], **values: object) -> list[Record]:
    """Return one window of each round and case."""
    return [
        changed(
            new_record(plan.cases[place], "run"),
            **{"kind": WINDOW, "block": 0, "round": number, "place": place, "quick": True},
            **{"rate": rate, "completed": 10, "suite": "advise", **values},
        )
        for place, own in rates.items()
        for number, rate in enumerate(own, start=1)
    ]


def loads(plan: Plan, place: int, p95_s: Sequence[float], p99_s: Sequence[float]) -> list[Record]:
    """Return the loads of one case below its capacity."""
    return [
        changed(
            new_record(plan.cases[place], "run"),
            **{"kind": LONG, "place": place, "memory_pss_mib": mib},
            **{"response_p95_s": own, "response_p99_s": more},
            **{"histogram": histogram([own * n / 190 for n in range(1, 201)])},
        )
        for own, more, mib in zip(p95_s, p99_s, (80.0, 84.0), strict=False)
    ]


def times(rate: float, factors: Sequence[float] = STEADY) -> list[float]:
    """Return the rates of several rounds."""
    return [rate * factor for factor in factors]


def failed(plan: Plan, place: int, problem: str) -> Record:
    """Return the record of a server that did not start."""
    return changed(new_record(plan.cases[place], "run"), kind=WINDOW, place=place, problem=problem)


def answered(
    known: Probe,
    rates: Mapping[Size, float],
    factors: Sequence[float] = STEADY,
    p95_s: Sequence[float] = (0.0612, 0.0875),
    problem: str = "",
    values: Mapping[str, object] | None = None,
    **constraints: Any,
) -> Answer:
    """Return the answer to candidates with these rates; those with a rate of 0 did not start.

    Every window has `values` besides.
    """
    question = Question(known, OVERHEADS, 25, **constraints)
    plan = planned(*rates, question=question)
    windows = {  # every second candidate varies the other way
        n: times(rate, factors[:: -1 if n % 2 else 1])
        for n, rate in enumerate(rates.values())
        if rate
    }
    records = measured(plan, windows, **values or {})
    records += [failed(plan, n, problem) for n, rate in enumerate(rates.values()) if not rate]
    chosen = answer.evaluate(question, plan, records).chosen.case
    p99_s = [1.3 * value for value in p95_s]
    later = loads(plan, plan.cases.index(chosen), p95_s, p99_s) if windows else []
    return answer.evaluate(question, plan, [*records, *later])
