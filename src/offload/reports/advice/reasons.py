"""Reasons: why a strategy and its size were chosen, and why others were not measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from offload.bench.advice import certainty, latency, strategies, unmeasured
from offload.bench.advice.answer import Answer, Option
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.latency import Percentile
from offload.bench.advice.prediction import limits
from offload.bench.advice.prediction.model import Prediction
from offload.bench.advice.unmeasured import Unmeasured
from offload.bench.stats.paired_test import SLOWER
from offload.reports.advice.names import (
    cores_name,
    join_names,
    option_name,
    shorten,
    size_name,
)
from offload.reports.advice.prediction import EXACT
from offload.reports.tables.formats import number
from offload.units import counted, percent, seconds

LITTLE = 0.005  # minimum share of a call for which a part of it is reported

COMPETE = "compete"  # the CPU is the limit of a function that uses several cores in each call
BUSY_LOOP = "busy_loop"  # the task is the limit, although it is a coroutine that awaits
LIMITS = {  # limits of the advised strategy, as clauses
    limits.USERS: "the limit is the number of users: each waits for one response at a time",
    limits.WORKERS: "the limit is the number of workers: all of them are busy",
    limits.CPU: "the limit is the CPU of {cores}",
    limits.GIL: "the limit is the GIL",
    limits.SERVER: "the limit is the event loop of the server",
    limits.TASK: "calls run one at a time on the event loop, without the overhead of workers",
    BUSY_LOOP: "the limit is the event loop: it is busy with the requests of all users",
    limits.EXTERNAL: "the limit is what the calls wait for, such as a lock or a remote service",
}
CAUSES = {  # why another strategy is slower: as a clause, and as an item of a list
    limits.CPU: ("the overhead uses CPU that the calls need", "more overhead"),
    COMPETE: ("the calls compete for the cores that each of them uses", "calls compete for cores"),
    limits.GIL: ("the threads share one GIL", "the threads share one GIL"),
    limits.SERVER: (
        "the event loop, which passes each call to a worker, is busy",
        "limited by its event loop",
    ),
    limits.TASK: (
        "each call blocks the event loop, and all other requests wait",
        "one call at a time",
    ),
    BUSY_LOOP: ("the event loop is busy", "limited by its event loop"),
    limits.EXTERNAL: (
        "the calls wait for something they share, such as a lock",
        "limited by a lock or a remote service",
    ),
}
PASSES_NO_CALLS = ("loop", "prefork")  # they run calls on their event loops: little overhead


def sentences(answer: Answer) -> Iterator[str]:
    """Yield the reasons: the call, the strategy's limit, why others are slower, and the size."""
    probe = answer.question.probe
    yield _call(probe)
    yield _limit(answer.chosen, probe)
    yield from _faster(answer)
    yield from _slower(answer)
    yield from _size(answer)


def not_measured(answer: Answer) -> Iterator[str]:
    """Yield what was not measured: strategies with their predicted rates, and other servers."""
    missing = unmeasured.of_answer(answer)
    if missing:
        yield f"{join_names([_unmeasured(each, answer) for each in missing])}."
    if missing and answer.is_interrupted:
        yield "The measurement was interrupted."
    elif any(each.why in (unmeasured.SLOW, unmeasured.BUDGET) for each in missing):
        yield "Only the best predictions are measured."
    if servers := strategies.other_servers(answer.chosen.strategy):
        yield f"Other servers with the same strategy: {join_names(servers)}."


def open_rivals(answer: Answer) -> list[str]:
    """Return the names of the candidates that may be faster than the chosen one."""
    return [option_name(each.strategy, each.workers) for each in _open_options(answer)]


def are_rivals_left_out(answer: Answer) -> bool:
    """Whether each candidate that may be faster was measured in fewer rounds than the chosen one.

    A candidate is left out if it is unlikely to be the fastest, by measured and predicted rates.
    """
    return all(each.rate.n < answer.chosen.rate.n for each in _open_options(answer))


def _open_options(answer: Answer) -> list[Option]:
    return [option for option in answer.rivals if certainty.is_open(option.compared)]


def _call(probe: Probe) -> str:
    call = probe.call
    parts = [
        f"{seconds(value)} of {what}"
        for value, what in ((call.cpu_s, "CPU"), (call.wait_s, "waiting"))
        if value > LITTLE * call.wall_s
    ]
    whole = parts[0] if len(parts) == 1 else seconds(call.wall_s)
    if len(parts) > 1:
        whole += f": {' and '.join(parts)}"
    if call.parallelism > 1:
        used = f"{seconds(call.cpu_s)} of CPU on several cores"
        whole = f"{seconds(call.wall_s)}, in which it uses {used}"
    hold = ""
    if not probe.gil_enabled:
        hold = "; this Python has no GIL"
    elif call.hold is not None:
        hold = f"; it holds the GIL for {percent(call.hold)} of the call"
    return f"A call alone takes {whole}{hold}."


def _limit(chosen: Option, probe: Probe) -> str:
    limit = LIMITS[_limit_of(chosen.prediction, probe)].format(
        cores=cores_name(probe.cores, probe.quota)
    )
    return f"With {option_name(chosen.strategy, chosen.workers)}, {limit}."


def _faster(answer: Answer) -> Iterator[str]:
    """Yield why strategies were not chosen whose measured rate is higher.

    They miss the required p99, or the difference is not certain.
    """
    chosen = answer.chosen
    rivals = answer.rivals
    for option in answer.others:
        if option.missed_p99 is not None and option not in rivals:
            yield _missed_p99(option, option.missed_p99, answer.question.p99_s)
    for option in rivals:
        ratio = None if option.compared is None else option.compared.verdict.ratio
        lower = 1 - option.prediction.rate / chosen.prediction.rate
        if ratio is None or ratio <= 1 + EXACT or option.strategy in answer.tie or lower <= 0:
            continue
        name = option_name(option.strategy, option.workers)
        yield (
            f"{name} was {percent(ratio - 1)} faster, but this is not certain, and its predicted "
            f"rate is {percent(lower)} lower than that of "
            f"{option_name(chosen.strategy, chosen.workers)}."
        )


def _missed_p99(option: Option, found: Percentile, limit_s: float | None) -> str:
    """Return why a strategy misses the required p99; `found` has its response times."""
    why = "requests fail or time out"
    if found.p99_s is not None and limit_s is not None and found.p99_s > limit_s:
        why = f"it is {seconds(found.p99_s)}"
    name = option_name(option.strategy, option.workers)
    return f"{name} misses the required p99: {why} at {percent(latency.LOADS[0])} load."


def _slower(answer: Answer) -> Iterator[str]:
    """Yield why other strategies are slower, if they are significantly slower."""
    seen = {answer.chosen.strategy, *answer.tie}
    by_cause: dict[str, list[str]] = {}
    for option in answer.others:
        is_slower = option.compared is not None and option.compared.verdict.outcome == SLOWER
        if option.strategy in seen or not is_slower:
            continue
        seen.add(option.strategy)
        cause, _ = _causes(option.prediction, answer)
        by_cause.setdefault(cause, []).append(option_name(option.strategy, option.workers))
    for cause, names in by_cause.items():
        if cause:
            yield f"{join_names(names)} {'is' if len(names) == 1 else 'are'} slower: {cause}."


def _causes(found: Prediction, answer: Answer) -> tuple[str, str]:
    """Return why a strategy is slower, as a clause and as an item of a list; empty if unknown."""
    if found.limit == limits.CPU and found.workers > 1 and _is_parallel(answer):
        return CAUSES[COMPETE]
    if found.limit == limits.CPU and found.strategy in PASSES_NO_CALLS:
        return "", ""
    return CAUSES.get(_limit_of(found, answer.question.probe), ("", ""))


def _limit_of(found: Prediction, probe: Probe) -> str:
    """Return the limit of a prediction, or BUSY_LOOP."""
    is_awaited = probe.is_coroutine and not probe.blocks_loop
    return BUSY_LOOP if found.limit == limits.TASK and is_awaited else found.limit


def _is_parallel(answer: Answer) -> bool:
    """Whether each call uses several cores at once."""
    return answer.question.probe.call.parallelism > 1


def _size(answer: Answer) -> Iterator[str]:
    """Yield whether a larger size would be faster, with the reason."""
    question, chosen = answer.question, answer.chosen
    best = question.model.best_size(chosen.strategy)
    if chosen.strategy == "loop" or best is None:
        return
    size = size_name(chosen.strategy, chosen.workers)
    larger = [
        option
        for option in answer.others
        if option.strategy == chosen.strategy and option.workers > chosen.workers
    ]
    if chosen.workers >= question.users:
        users = counted(question.users, "user")
        yield f"A larger size than {size} gains nothing with {users}."
    elif answer.is_measured and any(certainty.is_open(each.compared) for each in larger):
        yield f"A larger size than {size} may be faster: the difference is not certain."
    elif larger and answer.is_measured:
        yield f"A larger size than {size} gained nothing in this measurement."
    elif best.workers > chosen.workers:
        yield f"{size_name(best.strategy, best.workers)} may be faster, but were not measured."
    elif _is_limited_by_memory(answer, chosen.strategy, chosen.workers):
        yield f"A larger size needs more than {question.memory_mib:.0f} MiB."
    else:
        yield f"By the prediction, a larger size than {size} gains nothing."


def _unmeasured(found: Unmeasured, answer: Answer) -> str:
    """Return the name of a strategy, its predicted rate, and why it was not measured."""
    if found.prediction is None and found.why == unmeasured.UNSAFE:
        is_wrong = found.strategy == "threads" and answer.question.probe.differs_in_threads
        return f"{found.strategy} ({'not thread-safe' if is_wrong else 'the calls fail'})"
    memory = f"{answer.question.memory_mib or 0.0:.0f} MiB"
    if found.prediction is None:
        return f"{found.strategy} (needs more than {memory})"
    name = option_name(found.strategy, found.prediction.workers)
    if found.problem is not None:
        return f"{name} (failed: {shorten(found.problem.message)})"
    _, cause = _causes(found.prediction, answer) if found.why == unmeasured.SLOW else ("", "")
    if _is_limited_by_memory(answer, found.strategy, found.prediction.workers):
        cause = f"a larger size needs more than {memory}"
    details = filter(None, (f"predicted {number(found.prediction.rate)}/s", cause))
    return f"{name} ({', '.join(details)})"


def _is_limited_by_memory(answer: Answer, strategy: str, workers: int) -> bool:
    """Whether the memory limit excludes a better, larger size."""
    unlimited = replace(answer.question.model, memory_mib=None).best_size(strategy)
    return unlimited is not None and unlimited.workers > workers
