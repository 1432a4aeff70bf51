"""Sentences from the GIL cost of a task or an application, by the rules of docs/gil.rst."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.causes import diagnosis, execution, victims
from offload.causes.rules import Cause
from offload.engine import decisions
from offload.engine.record import Record
from offload.registry import catalog
from offload.studies.gil.cost import GilCost
from offload.units import percent

LOW_HOLD = 0.1  # h below which threads are as fast as processes
LOW_COST = 0.1  # C below which a task with a low h does not lose to the GIL
LONG_HOLD_S = 0.007  # hold of C code: Python code releases the GIL 5 ms after it is requested
NO_WAITER_S = 0.013  # added if no thread waits: then only the loop's 10 ms timer requests the GIL
SATURATED = 0.9  # rho above which one of several threads always waits; a guess
LOW_UTILISATION = 0.25  # rho below which short holds do not delay the loop; a guess
LATE_MS = 20.0  # loop lag above which tasks should leave the loop's process, even at equal rates
MANY_SWITCHES = 50.0  # context switches per call above which more threads may be slower
HIGH_INFLATION = 2.0  # kappa above which more threads may be slower
UNEVEN = 1.5  # times the mean share of the processes, from which they are uneven
LEAST_SHARE = 0.05  # mean share of the GILs below which they are not compared
MOST_SHARES = 8  # processes whose shares are listed
WSGI = "wsgi"
REASONS_FOR_THREADS = {  # by the outcome of the pairs
    decisions.SLOWER: "A hop to a process costs more than the GIL, so threads are faster",
    decisions.SAME: "Threads and processes differ too little to matter",
    decisions.TINY: "Threads and processes differ too little to matter",
}


def task_sentences(result: GilCost) -> Iterator[str]:
    """Yield a sentence for each conclusion from the figures of a task."""
    figures, window = result.gil, result.window
    outcome = result.cases.comparison.verdict.outcome
    if outcome == decisions.DISTURBED:
        yield f"No verdict: {result.cases.comparison.disturbed}."
        return
    delay = _loop_delay(window)
    if _has_no_gil(window):
        yield from _free_threaded_advice(result)
    elif (finding := _reason_for_threads(outcome, figures.hold)) is None:
        yield _without_threads(result)
        if delay is not None:
            yield f"The task {delay}: move it out of the loop's process, even at equal rates."
    elif delay is None:
        yield f"{finding}: use threads."
    elif outcome == decisions.SLOWER:
        yield f"{finding}, but the task {delay}, which only a move out of the loop's process fixes."
    else:
        yield f"{finding}, but the task {delay}: move it out of the loop's process."
    if delay is None and _is_late(window):
        yield "The event loop was delayed, probably by a lack of CPU, not by the GIL."
    yield from uneven(window)
    is_inflated = figures.inflation is not None and figures.inflation > HIGH_INFLATION
    if is_inflated or (result.threads is not None and result.threads.switches > MANY_SWITCHES):
        yield "The threads slow each other down: several may be slower than one."


def uneven(window: Record) -> Iterator[str]:
    """Yield the shares of the processes, if the GIL of some is held much longer than of others."""
    each = window.gil.each
    mean = sum(each) / max(1, len(each))
    if mean < LEAST_SHARE or (each[0] <= UNEVEN * mean and mean <= UNEVEN * each[-1]):
        return
    has_setting = "reuse_port" in catalog.find_server(window.case.server).settings
    fix = "use reuse_port=yes" if has_setting else "balance requests, not connections"
    yield f"The processes share the load unevenly, their GILs are held for {shares(each)}: {fix}."


def shares(each: Sequence[float]) -> str:
    """Return the shares of several processes in words."""
    if len(each) > MOST_SHARES:
        return f"{percent(each[-1])} to {percent(each[0])} of it in {len(each)} processes"
    found = [percent(share) for share in each]
    return f"{', '.join(found[:-1])} and {found[-1]} of it"


def _has_no_gil(window: Record) -> bool:
    return window.server.interpreter.get("gil_enabled") is False


def _free_threaded_advice(result: GilCost) -> Iterator[str]:
    """Yield the conclusions for a Python without a GIL, which cannot show the cost of the GIL."""
    major, minor, *_ = str(result.window.server.interpreter.get("python")).split(".")
    with_one = f"python={major}.{minor}t-gil"
    yield (
        "This Python has no GIL: threads use all cores. To measure the cost of a GIL, use another, "
        f"such as {with_one}."
    )
    if result.cases.comparison.verdict.outcome == decisions.FASTER:
        yield f"{_slower_without_gil(result)}."


def _slower_without_gil(result: GilCost) -> str:
    share = result.cost[0] or 0.0
    lower = f"The rate in threads is {percent(share)} lower than in processes"
    return f"{lower}, but not because of the GIL"


def _loop_delay(window: Record) -> str | None:
    """Return how the task delays the event loop, as a clause; None if it does not."""
    rho, hold_s = window.gil.utilisation.value, window.gil.hold_p75_s
    if _has_no_gil(window):
        return None
    is_requested = (window.tasks.slots or 1) > 1 and (rho or 0.0) >= SATURATED
    if hold_s is not None and hold_s > LONG_HOLD_S + (0.0 if is_requested else NO_WAITER_S):
        return "keeps the event loop waiting in calls that do not release the GIL"
    is_free = rho is not None and rho < LOW_UTILISATION and (hold_s or 0.0) <= LONG_HOLD_S
    return "keeps the event loop waiting" if _is_late(window) and not is_free else None


def _is_late(window: Record) -> bool:
    return window.tasks.loop_lag_p99_ms is not None and window.tasks.loop_lag_p99_ms > LATE_MS


def _reason_for_threads(outcome: str, hold: float | None) -> str | None:
    """Return a reason to use threads: from the pairs, or from h if they are unresolved."""
    if outcome == decisions.UNRESOLVED and hold is not None and hold < LOW_HOLD:
        return "The task hardly holds the GIL, so threads are as fast as processes"
    return REASONS_FOR_THREADS.get(outcome)


def _without_threads(result: GilCost) -> str:
    """Return the conclusion from the pairs and h if there is no reason to use threads."""
    hold, (cost, *_) = result.gil.hold, result.cost
    several = result.window.server.processes or 1
    if result.cases.comparison.verdict.outcome == decisions.FASTER:
        if hold is not None and hold < LOW_HOLD and cost is not None and cost < LOW_COST:
            return f"{_slower_without_gil(result)}, which the task hardly holds."
        if several > 1:
            return f"Threads in {several} processes lose: use more processes with fewer threads."
        return "Threads lose: use processes, interpreters or a free-threaded build."
    if hold is None:
        return "The pairs are unresolved, and h is unknown."
    cores = result.window.environment.get("cores")
    if isinstance(cores, int) and hold > several / cores:
        return (
            f"The pairs are unresolved, but the task holds the GIL for more than {several}/{cores} "
            "of its time: processes, interpreters or a free-threaded build are probably faster."
        )
    share = f"for only {percent(hold)} of its time"
    return (
        f"The pairs are unresolved, but the task holds the GIL {share}: "
        "threads still use several cores."
    )


def application_sentences(result: GilCost) -> Iterator[str]:
    """Yield a sentence for each conclusion from the figures of an application."""
    window, verdict = result.window, result.cases.comparison.verdict
    if verdict.outcome == decisions.DISTURBED:
        yield f"No verdict: {result.cases.comparison.disturbed}."
        return
    sizes = result.cases.other.settings
    many = f"{sizes.get('processes', sizes.get('workers'))} processes"
    several = window.server.processes or 1
    one = "one process" if several == 1 else f"{several} processes"
    is_tokens = catalog.find_server(window.case.server).workers_are == "tokens"
    if window.application.kind == WSGI or is_tokens:
        one += " with threads"
    causes = diagnosis.diagnose([window])
    yield from uneven(window)
    users = window.case.users
    yield from (diagnosis.sentence(c, users) for c in causes if c.kind == execution.GIL_IMPORT)
    if verdict.outcome == decisions.FASTER:
        yield f"{many} have {verdict.ratio:.2f} times the rate of {one}."
        yield from _limits(window, causes)
    elif verdict.outcome in (decisions.SAME, decisions.TINY):
        yield f"{many} and {one} differ too little to matter: use {one}."
    elif verdict.outcome == decisions.SLOWER:
        yield f"{many} are slower than {one}: use {one}."
    else:
        yield f"The difference between {many} and {one} is unresolved."
    yield from victims.sentences([window], {cause.kind for cause in causes})


def _limits(window: Record, causes: Sequence[Cause]) -> Iterator[str]:
    """Yield the limits of one process, as sentences."""
    rho = window.gil.utilisation.value
    if window.server.interpreter.get("gil_enabled") is False:
        yield "The GIL is off, so something else limits one process."
    elif rho is None:
        yield f"Whether the GIL is the cause is unknown: {window.gil.why}."
    elif execution.is_gil_full(rho):
        yield "The GIL is the limit of one process: use several, or a free-threaded build."
        return
    else:
        yield f"The GIL is held for {percent(rho)} of the time, so it is part of the cause at most."
    users = window.case.users
    yield from (diagnosis.sentence(c, users) for c in causes if diagnosis.is_per_process(c))
