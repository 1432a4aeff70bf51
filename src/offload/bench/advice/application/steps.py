"""The steps of advice for an application: probe, compare servers, then sizes, then latency."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from offload import cores, prctl
from offload.bench.advice import constraints, latency
from offload.bench.advice.application import question_file, sizes
from offload.bench.advice.application.advice_run import (
    AdviceRun,
    Report,
    affordable,
    as_seconds,
    measure_block,
    measure_cases,
    round_s,
    short_name,
)
from offload.bench.advice.application.answer import PROBE_BLOCK, ApplicationAnswer
from offload.bench.advice.application.question_file import Question
from offload.bench.advice.application.sizes import Size
from offload.bench.advice.candidates import FIXED_ROUND_S, SUITE, WORTH_MEASURING
from offload.bench.analysis import application_causes
from offload.bench.analysis.application_causes import PER_PROCESS, Cause
from offload.bench.experiments.progress import progress_file
from offload.bench.records.record import LONG, Record
from offload.bench.stats import sequential
from offload.bench.target import application_kind
from offload.bench.trial import builder
from offload.errors import RunError
from offload.flags import FAILED_REQUEST, LOAD
from offload.registry import catalog
from offload.suites import Case

SERVERS_SHARE = 0.45  # share of the time for comparing servers; the rest is for sizes
MOST_ROUNDS = sequential.QUICK.last
GROWS = 1.1  # a larger size is measured if the largest so far has this ratio to all other sizes
ROUNDS_OF_SIZES = 2  # rounds before a larger size is tried
PROBES = 3  # servers that are tried for the probe until one starts
PRELOAD_S = 6.0
# s for the response times, and for the memory with preload; each starts a server
RESERVED_S = latency.TOTAL_S + PRELOAD_S + 2 * FIXED_ROUND_S


def inspect_application(
    case: Case, memory_mib: float | None = None, p99_s: float | None = None
) -> Question:
    """Return the question about the application of a case; raise the error of its import."""
    found = application_kind.find(case.task, case.python, case.path)
    return Question(
        case.task, found.kinds, case.users, cores.available(), memory_mib, p99_s, found.name
    )


def advise(
    case: Case,
    question: Question,
    folder: Path,
    budget_s: float,
    report: Report,
    on_start: Callable[[Path], object] | None = None,
) -> ApplicationAnswer:
    """Advise within `budget_s` how to serve the application of a case; save records in `folder`.

    `on_start` is called with the folder before anything is measured. After an interrupt, the answer
    uses the records so far. Raise MachineError if no server here can serve the application, and
    RunError if it does not respond or if no server can meet the constraints.
    """
    prctl.adopt_orphans()
    started = time.monotonic()
    names = sizes.servers(question.kinds, case.python)
    folder.mkdir(parents=True, exist_ok=True)
    question_file.save(question, folder)
    if on_start is not None:
        on_start(folder)
    run = AdviceRun(question, case, folder, report, started + budget_s)
    try:
        _measure(run, names)
    except KeyboardInterrupt:
        if not any(record.result.rate for record in run.records):
            raise
        return replace(run.evaluate(), is_interrupted=True)
    finally:
        progress_file.remove(folder)
    return run.evaluate()


def _measure(run: AdviceRun, names: Sequence[str]) -> None:
    probe = _probe(run, names)
    saturating = _saturating_requests(run.question, probe)
    causes = application_causes.of_case([probe])
    run.most_processes = _most_processes(run.question, probe)
    run.reserved_s = RESERVED_S
    first = [
        sizes.with_size(run.case, name, size)
        for name, size in sizes.first_sizes(
            names, run.question.cores, saturating, run.most_processes
        )
    ]
    if len(first) > 1:
        whole_s = run.left_s
        first = affordable(run, first, probe, SERVERS_SHARE * whole_s, rounds=1)
        run.report(f"{len(first)} servers: up to {as_seconds(SERVERS_SHARE * whole_s)}")
        measure_block(
            run, first, time.monotonic() + SERVERS_SHARE * whole_s, most_rounds=ROUNDS_OF_SIZES
        )
    _compare_sizes(run, first, probe, saturating, causes)
    _try_larger_sizes(run, probe)
    _confirm(run, probe)
    _measure_latency(run)


def _probe(run: AdviceRun, names: Sequence[str]) -> Record:
    """Measure one server alone, with one process for all users; raise RunError without a rate."""
    first: Record | None = None
    for name in names[:PROBES]:
        case = sizes.with_size(run.case, name, sizes.probe_size(name, run.question.users))
        run.report(f"one process of {name} alone: 5 s")
        [record] = measure_cases(run, [case], PROBE_BLOCK, 1, with_gil=True)
        if record.problem is None and record.result.rate:
            alone_s = record.baseline.alone_s
            constraints.check_response_time(
                run.question.p99_s, alone_s, "server", "a single request"
            )
            return record
        first = first or record
        if record.problem is None or record.problem.kind in (LOAD, FAILED_REQUEST):
            break  # another server would get the same response
    problem = first.problem if first is not None else None
    if problem is None:
        raise RunError("no request had a response", "send another request by request=")
    raise RunError(problem.message, problem.remedy)


def _most_processes(question: Question, probe: Record) -> int:
    """Return how many processes fit into the memory, at most MOST_PROCESSES.

    Raise RunError if not even one does.
    """
    each_mib = probe.application.worker_pss_mib
    if question.memory_mib is None or not each_mib:
        return sizes.MOST_PROCESSES
    if each_mib > question.memory_mib:
        raise constraints.too_little_memory(question.memory_mib, "server", "one process", each_mib)
    return min(sizes.MOST_PROCESSES, int(question.memory_mib / each_mib))


def _saturating_requests(question: Question, probe: Record) -> int:
    """Return how many concurrent requests use all cores, but at most the number of users.

    It is cores x (1 + wait / CPU). The response time of a single request is wait + CPU.
    """
    alone_s, cpu_ms = probe.baseline.alone_s, probe.resources.cpu_ms_per_request
    if not alone_s or not cpu_ms:
        return question.users
    return min(
        question.users, max(question.cores, math.ceil(question.cores * alone_s * 1000 / cpu_ms))
    )


def _compare_sizes(
    run: AdviceRun,
    first: Sequence[Case],
    probe: Record,
    saturating: int,
    causes: Sequence[Cause],
) -> None:
    """Compare the best server of `first` with other sizes of it, and with the next best server."""
    if len(first) > 1:
        known = run.evaluate()
        best = known.chosen
        rivals = [o.case for o in known.others if o.case.server != best.case.server][:1]
        case, size = best.case, best.size
    else:
        case, rivals = first[0], []
        size = sizes.size_of(case)
    needs_processes = any(cause.kind in PER_PROCESS for cause in causes)
    needs_processes |= catalog.find_server(case.server).workers_are == "processes"
    run.useful_processes = sizes.MOST_PROCESSES if needs_processes else run.question.cores
    around = sizes.sizes_around(case.server, size, saturating, needs_processes)
    fitting = [each for each in around if each.processes <= run.most_processes]
    others = [sizes.with_size(run.case, case.server, each) for each in fitting]
    cases = [case, *others[:1], *rivals, *others[1:]]
    cases = affordable(run, cases, probe, run.left_s, rounds=ROUNDS_OF_SIZES)
    if len(cases) > 1:
        run.report(f"{case.server} and other sizes of it: up to {as_seconds(run.left_s)}")
        measure_block(run, cases, run.rounds_end, ROUNDS_OF_SIZES)


def _try_larger_sizes(run: AdviceRun, probe: Record) -> None:
    """Measure larger sizes of the chosen server, while they gain and there is time."""
    while (more := _next_size(run)) is not None:
        chosen = run.evaluate().chosen.case
        pair = [chosen, sizes.with_size(run.case, chosen.server, more)]
        if pair[1] in run.cases or more.processes > run.most_processes:
            break  # it failed before, or does not fit
        if ROUNDS_OF_SIZES * round_s(run, pair, probe) > run.left_s:
            break
        run.report(f"a larger size, which may be faster: up to {as_seconds(run.left_s)}")
        measure_block(run, pair, run.rounds_end, ROUNDS_OF_SIZES)


def _confirm(run: AdviceRun, probe: Record) -> None:
    """Measure the choice and the next best options side by side if there is time."""
    found = run.evaluate()
    rivals = [o.case for o in found.others if (o.share or 0.0) >= WORTH_MEASURING]
    cases = [found.chosen.case, *rivals[: sizes.MOST_SERVERS // 2]]
    if len(cases) > 1 and round_s(run, cases, probe) <= run.left_s:
        run.report(f"the best options again, side by side: up to {as_seconds(run.left_s)}")
        measure_block(run, cases, run.rounds_end, MOST_ROUNDS)


def _next_size(run: AdviceRun) -> Size | None:
    """Return a larger size if the chosen one is the largest so far and clearly the fastest."""
    found = run.evaluate()
    if found.larger:
        return None
    same = [o for o in found.others if o.case.server == found.chosen.case.server]
    if any(o.share is not None and GROWS * o.share > 1 for o in same):
        return None
    return sizes.larger(found.chosen.case.server, found.chosen.size)


def _measure_latency(run: AdviceRun) -> None:
    """Measure response times of the chosen server below its capacity, and its memory."""
    chosen = run.evaluate().chosen
    rate = chosen.rate.value or 0.0
    can_preload = catalog.find_server(chosen.case.server).can_preload
    run.report(f"response times of {short_name(chosen.case)} below its capacity: up to 20 s")
    _load(run, chosen.case, rate, latency.LOADS, run.ends - PRELOAD_S * can_preload)
    if can_preload:
        what = "its memory with the application imported before the fork"
        run.report(f"{what}: {as_seconds(PRELOAD_S)}")
        preload = replace(chosen.case, settings={**chosen.case.settings, "preload": "yes"})
        _load(run, preload, rate, latency.LOADS[:1], run.ends, most=2)


def _load(
    run: AdviceRun,
    case: Case,
    rate: float,
    shares: Sequence[float],
    until: float,
    most: int = latency.MAX_PASSES,
) -> None:
    trial = builder.new_trial(
        run.folder.name, kind=LONG, suite=SUITE, place=run.add_case(case), seed=run.seed, quick=True
    )
    run.announce(f"response times of {short_name(case)}", [case])
    with closing(latency.measure(case, rate, trial, None, shares, most, until)) as loads:
        for record in loads:  # each is saved at once: an interrupted answer has those before
            run.keep([record])
