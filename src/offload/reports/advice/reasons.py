"""Reasons: why a strategy and its size were chosen, what would change it, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.bench.advice import certainty, latency, model
from offload.bench.advice.answer import Answer, Option
from offload.bench.advice.certainty import LIKELY, PREDICTED, TIE
from offload.bench.advice.latency import Percentile
from offload.bench.advice.probe import Probe
from offload.bench.stats.paired_test import DISTURBED, SLOWER
from offload.registry import places
from offload.units import percent, seconds

FAILS = 0.001  # of the calls: from this share on, failures are reported
LEAKS_MIB = 0.01  # per call: 1 GiB after 100,000 requests; a guess
SLOW_START_S = 0.5  # s of the import and the first call, in each process; a guess
FAR = 0.15  # of the measured rate: a prediction that is further off is doubtful
WAITING = 0.5  # of a call: with more waiting, awaiting instead is worth its own code
VARIES = 1.0  # standard deviation of the call times over their mean


def sentences(answer: Answer) -> Iterator[str]:
    """Yield why: the figures of the call, the limit of the strategy, and of its rivals."""
    probe = answer.question.probe
    yield _call(probe)
    yield _limit(answer.chosen, probe)
    yield from _rivals(answer)
    yield from _size(answer)
    yield from warnings(answer)


def warnings(answer: Answer) -> Iterator[str]:
    """Yield what the user should know about the function itself."""
    probe = answer.question.probe
    if probe.is_unsafe_in_threads:
        yield (
            "The function returned different results in threads than alone: it is not safe in "
            "threads, so threads are not considered."
        )
    if probe.call.failed >= FAILS:
        yield f"{percent(probe.call.failed)} of the calls failed: {probe.call.error}."
    if probe.process.leak_mib is not None and probe.process.leak_mib > LEAKS_MIB:
        yield (
            f"The process grew by {probe.process.leak_mib * 1000:.0f} MiB per 1,000 calls: it may "
            "leak; restart workers after a number of calls."
        )
    if probe.process.import_s + probe.process.first_s > SLOW_START_S + probe.call.wall_s:
        start_s = probe.process.import_s + probe.process.first_s - probe.call.wall_s
        yield f"Each new process needs {seconds(start_s)} to import and prepare the function."
    if probe.process.threads:
        yield f"The calls left {probe.process.threads} threads of their own running."
    if probe.is_coroutine and probe.call.wait_s < WAITING * probe.call.wall_s:
        yield "The coroutine blocks its event loop: it hardly awaits."
    if probe.call.variation > VARIES:
        yield (
            f"The times of single calls vary by {probe.call.variation:.1f} times their mean, so "
            "response times vary, too."
        )


def changes(answer: Answer) -> Iterator[str]:
    """Yield what would change the answer."""
    probe = answer.question.probe
    threads = answer.question.model.best_size("threads")
    if probe.gil_enabled and threads is not None and threads.limit == model.GIL:
        yield "On a free-threaded Python, threads would not wait for the GIL: see fab pythons."
    if answer.chosen.prediction.limit == model.CPU:
        yield "All cores are busy: only more cores or less work per call increase the rate."
    if not probe.is_coroutine and probe.call.wait_s > WAITING * probe.call.wall_s:
        yield (
            "Most of a call is waiting: the same work as a coroutine that awaits needs one event "
            "loop and no workers."
        )
    if answer.chosen.prediction.limit == model.EXTERNAL:
        yield "Find what the calls wait for: a lock, a pool of connections, or a remote service."


def response_times(
    p99_s: float | None, rate: float | None, percentiles: Sequence[Percentile]
) -> Iterator[str]:
    """Yield up to which load, as a share of the rate, a required p99 is met, if there is one."""
    if p99_s is None or rate is None or not percentiles:
        return
    met = [
        (share, found.p99_s)
        for share, found in zip(latency.LOADS, percentiles, strict=False)
        if found.p99_s is not None and found.p99_s <= p99_s and not found.is_bound(found.p99_s)
    ]
    if met:
        share, known_s = met[-1]
        yield (
            f"the limit of {seconds(p99_s)} is met up to {percent(share)} load "
            f"({share * rate:.3g}/s): {seconds(known_s)}."
        )
    else:
        yield (
            f"the limit of {seconds(p99_s)} is not met: "
            f"{percentile(percentiles[0], percentiles[0].p99_s)} at "
            f"{percent(latency.LOADS[0])} load. Reduce the load per machine."
        )


def next_step(answer: Answer) -> str:
    """Return what to do next."""
    task = places.display_name(answer.question.probe.task)
    if answer.sure == DISTURBED:
        return "The measurement was disturbed: end the other processes and repeat it."
    if answer.sure == PREDICTED:
        return f"This is a prediction, not a measurement: fab advise:{task} measures it."
    if answer.sure in (LIKELY, TIE) and answer.others:
        rival = next((o for o in answer.others if certainty.is_open(o.compared)), answer.others[0])
        pair = f"{answer.chosen.case.name},{rival.case.name}"
        return f"If the difference matters, measure longer: fab compare:{pair}"
    return f"Serve it: {answer.chosen.case.command}"


def open_rivals(answer: Answer) -> list[str]:
    """Return the names of the candidates that may be as fast as the chosen one."""
    found = [option for option in answer.others if certainty.is_open(option.compared)]
    return [option_name(option.strategy, option.workers) for option in found]


def listed(names: Sequence[str]) -> str:
    """Render names as `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def percentile(found: Percentile, value: float | None) -> str:
    """Render one of the percentiles, with a mark if it is a lower bound."""
    if value is None:
        return "unknown"
    return f">= {seconds(value)}" if found.is_bound(value) else seconds(value)


def p95(found: Sequence[Percentile]) -> str:
    """Render the 95th percentiles at the shares of the rate in `latency.LOADS`."""
    return ", ".join(percentile(each, each.value) for each in found)


def _call(probe: Probe) -> str:
    cpu_s, wait_s = seconds(probe.call.cpu_s), seconds(probe.call.wait_s)
    parts = f"{cpu_s} of CPU and {wait_s} of waiting"
    hold = ""
    if not probe.gil_enabled:
        hold = "; this Python has no GIL"
    elif probe.call.hold is not None:
        hold = f"; it holds the GIL for {percent(probe.call.hold)} of that time"
    return f"A call takes {seconds(probe.call.wall_s)} alone: {parts}{hold}."


def _limit(chosen: Option, probe: Probe) -> str:
    name = option_name(chosen.strategy, chosen.workers)
    cores = f"{probe.cores} core{'s' if probe.cores > 1 else ''}"
    return {
        model.USERS: f"With {name}, no request waits for another one.",
        model.WORKERS: f"With {name}, the limit is the number of workers.",
        model.CPU: f"With {name}, the limit is the CPU of {cores}.",
        model.GIL: f"With {name}, the limit is the GIL, but other strategies cost more.",
        model.SERVER: f"With {name}, the limit is the server's event loop.",
        model.TASK: f"With {name}, calls run one after the other, without any hand-off.",
        model.EXTERNAL: f"With {name}, the limit is outside this process: a lock or a service.",
    }[chosen.prediction.limit]


def _rivals(answer: Answer) -> Iterator[str]:
    """Yield why the best size of each other strategy is slower, for strategies that are."""
    slower = {
        option.strategy
        for option in answer.others
        if option.compared is not None and option.compared.verdict.outcome == SLOWER
    } - {answer.chosen.strategy, *answer.tie}
    for prediction in answer.question.model.ranking():
        if prediction.strategy not in slower:
            continue
        reason = {
            model.GIL: "the threads wait for the one GIL",
            model.SERVER: "the hand-off between event loop and workers costs more than the call",
            model.TASK: "each call blocks the event loop, so that all others wait",
            model.CPU: "the hand-off uses CPU that the calls need",
        }.get(prediction.limit)
        if reason:
            yield f"{prediction.strategy.capitalize()}: {reason}."


def _size(answer: Answer) -> Iterator[str]:
    if answer.chosen.strategy == "loop":
        return
    best = answer.question.model.best_size(answer.chosen.strategy)
    if best and best.workers <= answer.chosen.workers:
        yield f"More than {best.workers} {noun(best.strategy)} gain nothing."


def noun(strategy: str) -> str:
    """Return what the workers of a strategy are called."""
    return {"threads": "threads", "loop": "loops"}.get(strategy, "processes")


def option_name(strategy: str, workers: int) -> str:
    """Return a strategy with its size: `threads x8`, and just `loop`."""
    return strategy if strategy == "loop" else f"{strategy} x{workers}"
