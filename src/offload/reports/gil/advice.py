"""What follows from what the GIL costs a task, in sentences, by the rules of docs/gil.rst."""

from __future__ import annotations

from collections.abc import Iterator

from offload.bench.experiments.gil_cost import GilCost
from offload.bench.records.record import Record
from offload.bench.stats import paired_test

FREE = 0.1  # h below which threads do as well as processes
SMALL = 0.1  # C below which a task that is as free loses to something else than the GIL
LONG_S = 0.007  # of a hold: Python code lets go within 5 ms of being asked, C code need not
UNASKED_S = 0.013  # more where no thread may wait: the loop's timer asks after 10 ms, and is late
FULL = 0.9  # rho from which one of several threads always waits; a guess
RARE = 0.25  # rho below which short holds do not make a loop late; a guess
LATE_MS = 20.0  # of the loop's lag: beyond it leave the loop's process even at equal rates
MANY = 50.0  # of context a call, beyond which threads may be slower than one
INFLATED = 2.0  # kappa, the same
FOR_THREADS = {  # what the pairs decided, when it was not that processes win
    paired_test.SLOWER: "A hop to a process costs more than the GIL, so threads do more",
    paired_test.SAME: "Threads and processes differ by less than matters",
    paired_test.TINY: "Threads and processes differ by less than matters",
}


def sentences(found: GilCost) -> Iterator[str]:
    """Say what follows from the figures, in one sentence for each that says something."""
    figures, visit, word = found.gil, found.visit, found.compared.verdict.word
    waits = _waits(visit)
    if _has_no_gil(visit):
        yield from _without(found)
    elif (finding := _for_threads(word, figures.hold)) is None:
        yield _otherwise(found)
        if waits is not None:
            yield f"The task {waits}: leave the loop's process even at equal rates."
    elif waits is None:
        yield f"{finding}: take threads."
    elif word == paired_test.SLOWER:
        yield f"{finding}, but the task {waits}, which only leaving the loop's process mends."
    else:
        yield f"{finding}, but the task {waits}: leave the loop's process."
    if waits is None and _is_late(visit):
        yield "The event loop was late, but not by the GIL: more likely no CPU was free."
    is_inflated = figures.inflation is not None and figures.inflation > INFLATED
    if is_inflated or found.threads.switches > MANY:
        yield "Its threads hinder each other: several may be slower than one."


def _has_no_gil(visit: Record) -> bool:
    return visit.server.interpreter.get("gil_enabled") is False


def _without(found: GilCost) -> Iterator[str]:
    """Say what a Python without a GIL shows, which tells of no task what it does under one."""
    major, minor, *_ = str(found.visit.server.interpreter.get("python")).split(".")
    with_one = f"python={major}.{minor}t-gil"
    yield (
        "This Python has no GIL: threads use the cores. To know the task, ask with another, such "
        f"as {with_one}."
    )
    if found.compared.verdict.word == paired_test.FASTER:
        yield f"{_less(found)}."


def _less(found: GilCost) -> str:
    return f"Threads do {found.cost[0] or 0.0:.0%} less than processes, but not by the GIL"


def _waits(visit: Record) -> str | None:
    """Say that the task keeps the event loop waiting, and where C code is why; else None."""
    rho, hold_s = visit.gil.utilisation.value, visit.gil.hold_p75_s
    if _has_no_gil(visit):
        return None
    is_asked = (visit.tasks.slots or 1) > 1 and (rho or 0.0) >= FULL
    if hold_s is not None and hold_s > LONG_S + (0.0 if is_asked else UNASKED_S):
        return "keeps the event loop waiting in calls that do not let the GIL go"
    is_free = rho is not None and rho < RARE and (hold_s or 0.0) <= LONG_S
    return "keeps the event loop waiting" if _is_late(visit) and not is_free else None


def _is_late(visit: Record) -> bool:
    return visit.tasks.loop_lag_p99_ms is not None and visit.tasks.loop_lag_p99_ms > LATE_MS


def _for_threads(word: str, hold: float | None) -> str | None:
    """Say why to take threads, by the pairs, or by h where these do not decide; else None."""
    if word == paired_test.UNRESOLVED and hold is not None and hold < FREE:
        return "The task hardly holds the GIL, so threads do what processes do"
    return FOR_THREADS.get(word)


def _otherwise(found: GilCost) -> str:
    """Say what the pairs or h let expect where they do not speak for threads."""
    hold, (cost, *_) = found.gil.hold, found.cost
    if found.compared.verdict.word == paired_test.FASTER:
        if hold is not None and hold < FREE and cost is not None and cost < SMALL:
            return f"{_less(found)}, which the task hardly holds."
        return "Threads lose to processes: processes, interpreters or a free-threaded build win."
    if hold is None:
        return "The pairs do not decide, and h is not known."
    cores = found.visit.environment.get("cores")
    if isinstance(cores, int) and hold > 1 / cores:
        return (
            f"The pairs do not decide, but the task holds the GIL more than 1/{cores} of its time: "
            "expect processes, interpreters or a free-threaded build to win."
        )
    return "The task holds the GIL for a part of its time: threads still use the cores."
