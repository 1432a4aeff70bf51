"""Answers of every kind that users may get, each named after its special property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from offload.bench.advice import answer
from offload.bench.advice.answer import Answer
from offload.bench.advice.inputs.probe import LOOP, PROCESSES, THREADS
from offload.bench.advice.question_file import Question
from tests.bench.advice.answers import CASE, PYTHON, WILD, answered
from tests.bench.advice.probes import CORES, OVERHEADS, coroutine, on_several_cores, point, probe

SLEEP = probe(wait_s=0.2, cpu_s=0.0005, hold=0.002)
SHOP = probe(wait_s=0.02, cpu_s=0.0014, hold=0.06)
PRODUCT = on_several_cores(wall_s=0.00268, cpu_s=0.00524)
TINY = probe(wait_s=0.0, cpu_s=0.00001, hold=1.0)
AWAITS = coroutine(0.2, 0.0005, 25)
BEYOND = "it cannot be pickled: <_thread.lock object at 0x7f1>, define it in a module"


def _unsafe() -> Answer:
    known = probe(
        **{"wait_s": 0.01, "cpu_s": 0.05, "hold": 0.8, "failed": 0.02, "error": "ValueError: x"},
        **{"leak_mib": 0.5, "first_s": 2.0, "threads": 3, "variation": 2.0},
    )
    points = [point(THREADS, p.count, p.rate, 0.05, results=3) for p in known.of_kind(THREADS)]
    known = replace(known, points=(*points, *known.of_kind(PROCESSES)))
    sizes = [("prefork", 2), ("pipes", 2), ("processes", 2), ("prefork", 1), ("prefork", 4)]
    return answered(known, {size: 20.0 + n / 100 for n, size in enumerate(sizes)}, p99_s=0.08)


def _everything() -> Answer:
    """Return the longest answer: servers that failed, and a warning about everything."""
    rates = {("prefork", 2): 20.0, ("pipes", 2): 0.0, ("processes", 2): 0.0}
    rates |= {("prefork", 1): 0.0, ("prefork", 4): 0.0}
    return answered(
        _unsafe().question.probe,
        rates,
        problem=f"{BEYOND}, or do not send it to other processes at all",
        values={"failed": {"5xx": 5}},
        p99_s=0.08,
        memory_mib=82.0,
    )


def _blocks() -> Answer:
    last = point(LOOP, 25, 1 / 0.0205, 0.0005, on_loop_s=0.0205)
    known = coroutine(0.02, 0.0005, 25)
    known = replace(known, points=(*known.points[:-1], last))
    rates = {("threads", 25): 950.0, ("threads", 16): 700.0, ("pipes", 25): 900.0}
    return answered(known, rates)


def _locked() -> Answer:
    points = [point(kind, n, 20.0, 0.001) for kind in (THREADS, PROCESSES) for n in (CORES, 16)]
    known = probe(wait_s=0.049, cpu_s=0.001, hold=0.02, points=tuple(points))
    return answered(known, {("threads", 2): 20.0, ("loop", 1): 19.0, ("pipes", 1): 18.0})


def _interrupted() -> Answer:
    found = answered(PYTHON, {("prefork", 2): 39.0, ("pipes", 2): 36.0}, factors=(1.0,))
    chosen = replace(found.chosen, percentiles=(), memories_mib=())
    return replace(found, chosen=chosen, is_interrupted=True)


SCENARIOS: dict[str, Callable[[], Answer]] = {
    "threads are best for waiting": lambda: answered(
        SLEEP, {("threads", 25): 124.0, ("pipes", 25): 121.0, ("threads", 16): 79.0}
    ),
    "loop is best for tiny calls": lambda: answered(
        TINY, {("prefork", 2): 1990.0, ("loop", 1): 1950.0, ("prefork", 1): 1800.0}
    ),
    "loop is best for a coroutine": lambda: answered(
        AWAITS, {("loop", 1): 124.0, ("threads", 25): 122.0, ("prefork", 2): 100.0}
    ),
    "waits and computes": lambda: answered(
        SHOP,
        {("prefork", 25): 687.0, ("pipes", 25): 604.0, ("prefork", 16): 587.0},
        factors=(1.0, 1.1, 0.9),
    ),
    "processes are best for Python": lambda: answered(
        PYTHON,
        {
            **{("prefork", 2): 30.0, ("pipes", 2): 39.0, ("processes", 2): 35.0},
            **{("pipes", 1): 19.0, ("pipes", 4): 39.1},
        },
    ),
    "a tie": lambda: answered(
        PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 39.8, ("threads", 2): 20.0}
    ),
    "not certain": lambda: answered(
        PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 36.0}, factors=WILD
    ),
    "a p99 that is missed": lambda: answered(
        PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 30.0}, p99_s=0.07
    ),
    "a p99 that is met at half load": lambda: answered(
        PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 30.0}, p99_s=0.1
    ),
    "unsafe in threads, fails, leaks and more": _unsafe,
    "everything at once": _everything,
    "a candidate that did not start": lambda: answered(
        PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 0.0, ("processes", 2): 33.0}, problem=BEYOND
    ),
    "no candidate started": lambda: answered(
        PYTHON, {("prefork", 2): 0.0, ("pipes", 2): 0.0}, problem="it died"
    ),
    "a coroutine that blocks": _blocks,
    "a lock": _locked,
    "several cores in each call": lambda: answered(
        PRODUCT, {("loop", 1): 209.0, ("pipes", 2): 115.0, ("prefork", 2): 111.0}
    ),
    "a limit of memory": lambda: answered(
        SLEEP,
        {("threads", 25): 124.0, ("prefork", 4): 19.0, ("threads", 16): 79.0},
        memory_mib=70.0,
    ),
    "a limit of memory on processes": lambda: answered(
        PYTHON, {("prefork", 1): 19.7, ("threads", 1): 19.5}, memory_mib=39.0
    ),
    "disturbed": lambda: answered(
        PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 20.0}, values={"others_cpu": 0.5}
    ),
    "interrupted": _interrupted,
    "predicted": lambda: answer.predict(Question(SHOP, OVERHEADS, 25), CASE),
    "predicted with little memory": lambda: answer.predict(
        Question(PYTHON, OVERHEADS, 25, memory_mib=35.0), CASE
    ),
    "predicted on a busy machine": lambda: answer.predict(
        Question(SHOP, OVERHEADS, 25, overhead_warning="the overhead is not certain: it was busy"),
        CASE,
    ),
}
