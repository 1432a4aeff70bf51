"""Reasons: why a strategy and its size were chosen, what would change it, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from offload.bench.advice import certainty, cluster, latency, model, strategies, unmeasured
from offload.bench.advice.answer import Answer, Option, predict
from offload.bench.advice.certainty import LIKELY, PREDICTED, TIE
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.model import Prediction
from offload.bench.advice.question_file import OtherPython
from offload.bench.advice.unmeasured import Unmeasured
from offload.bench.stats.paired_test import DISTURBED, SLOWER
from offload.registry import places
from offload.reports.advice.names import listed, option_name, shortened, size_name
from offload.reports.tables.formats import number
from offload.suites import Case
from offload.units import percent, seconds

FAILS = 0.001  # minimum share of failed calls or requests that is reported
LEAKS_MIB = 0.01  # reported growth per call: 1 GiB after 100,000 requests; a guess
SLOW_START_S = 0.5  # s of the import and the first call, in each process; a guess
EXACT, UNRELIABLE = 0.005, 0.15  # relative errors of a prediction
WAITING = 0.5  # share of its time that a call waits, above which a coroutine is recommended
VARIES = 1.0  # standard deviation of the call times over their mean, above which it is reported
LESS_CPU = 0.1  # minimum share of CPU time that kept pages must save; a guess
MALLOC = "MALLOC_MMAP_THRESHOLD_=16777216 and MALLOC_TRIM_THRESHOLD_=33554432"
LITTLE = 0.005  # minimum share of a call for which a part of it is reported

COMPETE = "compete"  # the CPU is the limit of a function that uses several cores in each call
LIMITS = {  # limits of the advised strategy, as clauses
    model.USERS: "no request waits for another one",
    model.WORKERS: "the limit is the number of workers: all of them are busy",
    model.CPU: "the limit is the CPU of {cores}",
    model.GIL: "the limit is the GIL",
    model.SERVER: "the limit is the event loop of the server",
    model.TASK: "calls run one at a time on the event loop, without the overhead of workers",
    model.EXTERNAL: "the limit is what the calls wait for, such as a lock or a remote service",
}
CAUSES = {  # why another strategy is slower: as a clause, and as an item of a list
    model.CPU: ("the overhead uses CPU that the calls need", "more overhead"),
    COMPETE: ("the calls compete for the cores that each of them uses", "calls compete for cores"),
    model.GIL: ("the threads share one GIL", "the threads share one GIL"),
    model.SERVER: (
        "the event loop, which passes each call to a worker, is busy",
        "limited by its event loop",
    ),
    model.TASK: (
        "each call blocks the event loop, and all other requests wait",
        "one call at a time",
    ),
    model.EXTERNAL: (
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


def warnings(answer: Answer) -> Iterator[str]:
    """Yield warnings about the loads and about the function itself."""
    probe, chosen = answer.question.probe, answer.chosen
    name = option_name(chosen.strategy, chosen.workers)
    yield from of_failed_requests(name, chosen.failed)
    if answer.is_measured:
        yield from of_memory(name, answer.question.memory_mib, answer.memory_mib)
    if (doubt := answer.question.overhead_warning) is not None:
        yield f"{doubt[0].upper()}{doubt[1:]}; repeat it at a quieter time."
    listed_below = {each.problem for each in answer.failures}
    if others := [each for each in answer.problems if each not in listed_below]:
        yield f"Some loads failed: {shortened(others[0].message)}."
    if probe.differs_in_threads:
        yield "In threads the function returned different results: it is not thread-safe."
    if chosen.strategy == "threads" and probe.call.results > 1:
        yield (
            "Results differ between calls, so it cannot be checked whether threads return wrong "
            "results."
        )
    if probe.fails_in_threads:
        yield "In threads the calls failed: the function is not thread-safe."
    if probe.call.failed >= FAILS:
        error = "" if probe.call.error is None else f": {shortened(probe.call.error)}"
        yield f"{percent(probe.call.failed)} of the calls failed{error}."
    if probe.process.leak_mib is not None and probe.process.leak_mib > LEAKS_MIB:
        yield (
            f"The process grew by {probe.process.leak_mib * 1000:.0f} MiB per 1,000 calls: it may "
            "leak memory; restart workers after a number of calls."
        )
    if probe.process.import_s + probe.process.first_s > SLOW_START_S + probe.call.wall_s:
        start_s = probe.process.import_s + probe.process.first_s - probe.call.wall_s
        yield f"Each new process needs {seconds(start_s)} to import and prepare the function."
    if probe.process.threads:
        threads = size_name("threads", probe.process.threads)
        yield f"The calls started {threads} of their own that still run."
    if answer.question.model.blocks_loop:
        blocked_s = seconds(answer.question.model.on_loop_s)
        yield f"The coroutine blocks its event loop for {blocked_s}, and all other requests wait."
    if probe.call.variation > VARIES:
        yield (
            f"The times of calls vary: their standard deviation is {probe.call.variation:.1f} "
            "times their mean."
        )


def of_failed_requests(name: str, share: float) -> Iterator[str]:
    """Yield a warning if requests to the advised server, `name`, failed."""
    if share >= FAILS:
        yield (
            f"{percent(share, 1)} of the requests to {name} failed under load: its rate and "
            "response times are those of the others."
        )


def of_memory(name: str, limit_mib: float | None, used_mib: float | None) -> Iterator[str]:
    """Yield a warning if the advised server, `name`, used more memory than the limit allows."""
    if limit_mib is not None and used_mib is not None and used_mib > limit_mib:
        yield f"{name} used {used_mib:.0f} MiB, more than the limit of {limit_mib:.0f} MiB."


def changes(answer: Answer) -> Iterator[str]:
    """Yield which changes of the function or the machine would change the answer."""
    probe = answer.question.probe
    threads = answer.question.model.best_size("threads")
    if probe.gil_enabled and threads is not None and threads.limit == model.GIL:
        yield "In a free-threaded Python (see fab pythons), threads do not share a GIL."
    if (saved := 1 - probe.kept_pages_factor) >= LESS_CPU:
        others = "other strategies" if answer.chosen.strategy == "pipes" else "the server"
        yield (
            f"With {MALLOC} in the environment of {others}, a process keeps the memory that calls "
            f"free, and a call needs {percent(saved)} less CPU."
        )
    if _is_parallel(answer):
        yield (
            "With one thread in each call, for example by OPENBLAS_NUM_THREADS=1, more workers may "
            "be faster: set it and repeat."
        )
    if answer.chosen.prediction.limit == model.CPU:
        more = f"machines ({_machines()})" if cluster.is_worth_it(answer) else "less CPU per call"
        yield f"More cores or {more} increase the rate."
    is_blocking = not probe.is_coroutine or answer.question.model.blocks_loop
    if is_blocking and probe.call.wait_s > WAITING * probe.call.wall_s:
        yield "A coroutine that awaits needs no workers."
    if answer.chosen.prediction.limit == model.EXTERNAL:
        yield "Find what the calls wait for: a lock, a pool of connections, or a remote service."
    if probe.call.connections:
        yield (
            "Each call opens a network connection. Keep it open, for example with requests.Session "
            "or a pool, to save this time."
        )
    for other in answer.question.pythons:
        yield _other_python(other)


def _other_python(found: OtherPython) -> str:
    """Return the best strategy in another Python, or why it is unknown."""
    best = found.prediction
    if best is None:
        return f"In Python {found.name}: {shortened(found.problem or 'unknown')}."
    name = option_name(best.strategy, best.workers)
    return (
        f"In Python {found.name}: {name} with {number(best.rate)}/s by the prediction, "
        f"{found.ratio or 0.0:.2f}x of the best prediction here."
    )


def _machines() -> str:
    """Return the server that uses other machines, and from which duration of a call it gains."""
    known = cluster.BREAK_EVEN
    low, high = seconds(known.low), seconds(known.high)
    return f"dask, from {seconds(known.seconds)} per call on, {low} to {high}"


def next_steps(answer: Answer) -> Iterator[str]:
    """Yield the next step, and an alternative if there is one."""
    task = places.display_name(answer.question.probe.task)
    options = _options(answer)
    advise = _command(f"advise:{task}", options)
    if answer.sure == DISTURBED:
        yield "End the other processes (fab doctor names them) and repeat the measurement."
    elif answer.failures and not answer.is_measured:
        yield f"Find out why the servers failed, and repeat: {advise}"
    elif answer.sure == PREDICTED:
        yield f"Measure it: {advise}"
    else:
        yield f"Serve it: {_command(answer.chosen.case.command.removeprefix('fab '))}"
    if answer.sure in (LIKELY, TIE) and (rivals := answer.rivals):
        rival = next((each for each in rivals if certainty.is_open(each.compared)), rivals[0])
        pair = f"{answer.chosen.case.name},{rival.case.name}"
        yield f"Measure longer: {_command(f'compare:{pair}', options)}"


def _options(answer: Answer) -> list[str]:
    """Return the options of the question that commands need to measure the same."""
    case, users = answer.chosen.case, answer.question.users
    found = [] if users == Case.users else [f"users={users}"]
    return [*found, *([f"path={case.path}"] if case.path else [])]


def _command(word: str, options: Sequence[str] = ()) -> str:
    """Return a command, quoted for a shell."""
    return f"fab {shlex.quote(','.join([word, *options]))}"


def not_measured(answer: Answer) -> Iterator[str]:
    """Yield what was not measured: strategies with their predicted rates, and other servers."""
    missing = unmeasured.of_answer(answer)
    if missing:
        yield f"{listed([_unmeasured(each, answer) for each in missing])}."
    if missing and answer.is_interrupted:
        yield "The measurement was interrupted."
    elif any(each.why in (unmeasured.SLOW, unmeasured.BUDGET) for each in missing):
        yield "Only the best predictions are measured."
    if servers := strategies.other_servers(answer.chosen.strategy):
        yield f"Other servers with the same strategy: {listed(servers)}."


def prediction(answer: Answer) -> Iterator[str]:
    """Yield the difference between the predicted and the measured rate of the chosen strategy.

    If the measurement was disturbed, yield the strategy with the best prediction instead.
    """
    if answer.sure == DISTURBED:
        best = predict(answer.question, answer.chosen.case).chosen.prediction
        name = option_name(best.strategy, best.workers)
        yield (
            f"{name} with {number(best.rate)}/s, calculated from calls of the function alone, "
            "which may have been disturbed, too."
        )
        return
    measured, predicted = answer.chosen.rate.value, answer.chosen.prediction.rate
    if measured is None:
        return
    name = option_name(answer.chosen.strategy, answer.chosen.workers)
    yield f"{of_prediction(name, predicted, measured)} Memory with ~ is predicted."


def of_prediction(name: str, predicted: float, measured: float) -> str:
    """Return the predicted rate of the advised server, `name`, and its error."""
    error = predicted / measured - 1
    doubt = ": do not rely on predictions here" if abs(error) > UNRELIABLE else ""
    difference = "as measured"
    if abs(error) >= EXACT:
        difference = f"{percent(abs(error))} {'above' if error > 0 else 'below'} the measured rate"
    return f"{number(predicted)}/s for {name}, {difference}{doubt}."


def open_rivals(answer: Answer) -> list[str]:
    """Return the names of the candidates that may be faster than the chosen one."""
    found = [option for option in answer.rivals if certainty.is_open(option.compared)]
    return [option_name(option.strategy, option.workers) for option in found]


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
        whole = f"{seconds(call.wall_s)} and {seconds(call.cpu_s)} of CPU, on several cores at once"
    hold = ""
    if not probe.gil_enabled:
        hold = "; this Python has no GIL"
    elif call.hold is not None:
        hold = f"; it holds the GIL for {percent(call.hold)} of that time"
    return f"A call alone takes {whole}{hold}."


def _limit(chosen: Option, probe: Probe) -> str:
    cores = f"{probe.cores} core{'s' if probe.cores > 1 else ''}"
    limit = LIMITS[chosen.prediction.limit].format(cores=cores)
    return f"With {option_name(chosen.strategy, chosen.workers)}, {limit}."


def _faster(answer: Answer) -> Iterator[str]:
    """Yield why strategies were not chosen whose measured rate is higher.

    They miss the required p99, or the difference is not certain.
    """
    chosen = answer.chosen
    rivals = answer.rivals
    for option in answer.others:
        if option.missed_p99_s is not None and option not in rivals:
            yield _missed_p99(option, answer.question.p99_s or 0.0)
    for option in rivals:
        ratio = None if option.compared is None else option.compared.verdict.ratio
        lower = 1 - option.prediction.rate / chosen.prediction.rate
        if ratio is None or ratio <= 1 + EXACT or option.strategy in answer.tie or lower <= 0:
            continue
        name = option_name(option.strategy, option.workers)
        yield (
            f"{name} was {percent(ratio - 1)} faster, which is not certain; its predicted rate is "
            f"{percent(lower)} lower."
        )


def _missed_p99(option: Option, limit_s: float) -> str:
    """Return why a strategy misses the required p99."""
    missed_s = option.missed_p99_s or 0.0
    why = f"it is {seconds(missed_s)}"
    if missed_s <= limit_s:
        why = "requests fail or time out"
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
            yield f"{listed(names)} {'is' if len(names) == 1 else 'are'} slower: {cause}."


def _causes(found: Prediction, answer: Answer) -> tuple[str, str]:
    """Return why a strategy is slower, as a clause and as an item of a list; empty if unknown."""
    if found.limit == model.CPU and found.workers > 1 and _is_parallel(answer):
        return CAUSES[COMPETE]
    if found.limit == model.CPU and found.strategy in PASSES_NO_CALLS:
        return "", ""
    return CAUSES.get(found.limit, ("", ""))


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
        option.workers
        for option in answer.others
        if option.strategy == chosen.strategy and option.workers > chosen.workers
    ]
    if chosen.workers >= question.users:
        yield f"More than {size} gain nothing with {question.users} users."
    elif larger and answer.is_measured:
        yield f"More than {size} gained nothing in this measurement."
    elif best.workers > chosen.workers:
        yield f"{size_name(best.strategy, best.workers)} may be faster, but were not measured."
    elif _is_limited_by_memory(answer, chosen.strategy, chosen.workers):
        yield f"More than {size} need more than {question.memory_mib:.0f} MiB."
    else:
        yield f"By the prediction, more than {size} gain nothing."


def _unmeasured(found: Unmeasured, answer: Answer) -> str:
    """Return the name of a strategy, its predicted rate, and why it was not measured."""
    if found.prediction is None and found.why == unmeasured.UNSAFE:
        return f"{found.strategy} (not thread-safe)"
    memory = f"{answer.question.memory_mib or 0.0:.0f} MiB"
    if found.prediction is None:
        return f"{found.strategy} (needs more than {memory})"
    name = option_name(found.strategy, found.prediction.workers)
    if found.problem is not None:
        return f"{name} (failed: {shortened(found.problem.message)})"
    _, cause = _causes(found.prediction, answer) if found.why == unmeasured.SLOW else ("", "")
    if _is_limited_by_memory(answer, found.strategy, found.prediction.workers):
        cause = f"more need more than {memory}"
    details = filter(None, (f"predicted {number(found.prediction.rate)}/s", cause))
    return f"{name} ({', '.join(details)})"


def _is_limited_by_memory(answer: Answer, strategy: str, workers: int) -> bool:
    """Whether the memory limit excludes a better, larger size."""
    unlimited = replace(answer.question.model, memory_mib=None).best_size(strategy)
    return unlimited is not None and unlimited.workers > workers
