"""What follows from what the GIL costs a task, in sentences, by the rules of docs/gil.rst."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gil_cost import GilCost
from bench.record import Record
from bench.stats import verdict

FREE = 0.1  # h below which threads do as well as processes
LONG_S = 0.007  # of a hold: Python code lets go within 5 ms of being asked, C code need not
UNASKED_S = 0.013  # more where no thread may wait: the loop's timer asks after 10 ms, and is late
FULL = 0.9  # rho from which one of several threads always waits; a guess
LATE_MS = 20.0  # of the loop's lag: beyond it leave the loop's process even at equal rates
MANY = 50.0  # of context a call, beyond which threads may be slower than one
INFLATED = 2.0  # kappa, the same


def sentences(found: GilCost) -> Iterator[str]:
    """Say what follows from the figures, in one sentence for each that says something."""
    figures, word = found.gil, found.compared.verdict.word
    yield _by_pairs(word) or _by_hold(figures.hold, found.visit.environment.get("cores"))
    if (waits := _waits(found.visit)) is not None and word == verdict.SLOWER:
        yield f"{waits}, which only leaving the loop's process mends."
    elif waits is not None:
        yield f"{waits}: leave the loop's process even at equal rates."
    is_inflated = figures.inflation is not None and figures.inflation > INFLATED
    if is_inflated or found.threads.switches > MANY:
        yield "Its threads hinder each other: several may be slower than one."


def _waits(visit: Record) -> str | None:
    """Say that the event loop waits for the task, and where C code is why; else None."""
    lag_ms, hold_s = visit.loop_lag_p99_ms, visit.gil_hold_p75_s
    is_asked = (visit.slots or 1) > 1 and (visit.gil_utilisation or 0.0) >= FULL
    if hold_s is not None and hold_s > LONG_S + (0.0 if is_asked else UNASKED_S):
        return "It keeps the event loop waiting in calls that do not let the GIL go"
    return "It keeps the event loop waiting" if lag_ms is not None and lag_ms > LATE_MS else None


def _by_pairs(word: str) -> str | None:
    """Say what the pairs of threads and processes decided; None when they are unresolved."""
    if word == verdict.FASTER:
        return "Threads lose to processes: processes, interpreters or a free-threaded build win."
    if word == verdict.SLOWER:
        return "A hop to a process costs more than the GIL: threads do more, take threads."
    if word in (verdict.SAME, verdict.TINY):
        return "Threads and processes differ by less than matters: take threads."
    return None


def _by_hold(hold: float | None, cores: object) -> str:
    """Say what h lets expect, where the pairs did not decide."""
    if hold is None:
        return "The pairs do not decide, and h is not known."
    if hold < FREE:
        return "The task hardly holds the GIL: threads do what processes do, take threads."
    if isinstance(cores, int) and hold > 1 / cores:
        return (
            f"The pairs do not decide, but the task holds the GIL more than 1/{cores} of its time: "
            "expect processes, interpreters or a free-threaded build to win."
        )
    return "The task holds the GIL for a part of its time: threads still use the cores."
