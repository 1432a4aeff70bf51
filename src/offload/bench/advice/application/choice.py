"""The choice of a server and its size for an application, from the records of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from offload.bench.advice import certainty, constraints, latency
from offload.bench.advice.application import sizes
from offload.bench.advice.application.answer import (
    PROBE_BLOCK,
    ApplicationAnswer,
    Option,
    WorkerMemory,
)
from offload.bench.advice.application.prediction import OneProcess
from offload.bench.advice.application.question_file import Question
from offload.bench.analysis import application_causes, comparison, disturbance, rate
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RoundKey, RunRecords, by_round
from offload.errors import RunError
from offload.flags import Problem
from offload.suites import Case


def evaluate(question: Question, planned: Plan, records: Sequence[Record]) -> ApplicationAnswer:
    """Choose among the servers and sizes that were measured side by side.

    Raise RunError if none has a rate, or if none fits into the memory.
    """
    run = RunRecords(records)
    windows = _windows(planned, run)
    problems = tuple(dict.fromkeys(r.problem for r in records if r.problem))
    if not windows:
        first = problems[0] if problems else Problem("unknown", "nothing was measured")
        raise RunError(first.message, first.remedy)
    probed = [r for r in run.records if r.trial.block == PROBE_BLOCK]
    probe = _probe(probed, planned, question)
    options = {
        place: _option(planned.cases[place], found, run.at(place).records, probe)
        for place, found in windows.items()
    }
    shares = _shares(windows)
    tied = _find_ties(_fitting_places(question, options), windows, shares)
    chosen = min(tied, key=lambda p: sizes.preference(options[p].case.server, options[p].size))
    others = tuple(
        _compare(options[place], windows[chosen], windows[place], shares[place] / shares[chosen])
        for place in sorted(options, key=lambda place: -shares[place])
        if place != chosen
    )
    best, own = options[chosen], run.at(chosen)
    loads = own.long_loads()
    return ApplicationAnswer(
        question,
        best,
        others,
        tie=tuple(dict.fromkeys(options[place].case.server for place in [chosen, *tied])),
        causes=tuple(application_causes.of_case(probed)),
        remaining=tuple(application_causes.of_case(own.windows())),
        probe=probe,
        percentiles=tuple(latency.percentiles(loads)),
        memory_mib=max(latency.memories_mib(loads), default=None),
        worker=_worker_memory(loads),
        preloaded=_worker_memory(_preloaded(best.case, planned, run)),
        disturbed=certainty.find_disturbance((option.compared for option in others), own.windows()),
        problems=problems,
    )


def _preloaded(best: Case, planned: Plan, run: RunRecords) -> list[Record]:
    """Return the records of the best case with the application imported before the fork."""
    preload = {**best.settings, "preload": "yes"}
    return [
        record
        for place, case in enumerate(planned.cases)
        if case.server == best.server and case.settings == preload
        for record in run.at(place).last_attempts()
    ]


def _windows(planned: Plan, run: RunRecords) -> dict[int, list[Record]]:
    """Return the windows of each place from comparisons or, without any, from the probe.

    A server that failed in its last rounds is left out.
    """
    compared = {
        place: [r for r in run.at(place).windows() if r.trial.block != PROBE_BLOCK]
        for place in range(len(planned.cases))
    }
    known = {
        place: found
        for place, found in compared.items()
        if _rates(found) and not rate.is_hopeless(found)
    }
    if known:
        return known
    probed = {place: run.at(place).windows() for place in range(len(planned.cases))}
    return {place: found for place, found in probed.items() if _rates(found)}


def _rates(found: Sequence[Record]) -> Mapping[RoundKey, float]:
    return by_round(found, comparison.rate_of)


def _probe(probed: Sequence[Record], planned: Plan, question: Question) -> OneProcess | None:
    """Return the figures of the process that was measured alone.

    None if it has no rate, or if other processes disturbed it.
    """
    for record in probed:
        value = record.result.rate
        if record.problem is None and value and disturbance.between([record], []) is None:
            case = planned.cases[record.trial.place or 0]
            return OneProcess(
                case.server,
                sizes.size_of(case),
                question.users,
                question.cores,
                value,
                record.baseline.alone_s,
                _worker_s(record),
                _cpu_s(record, with_load_tool=True),
            )
    return None


def _worker_s(record: Record) -> float | None:
    """Return for how long a request occupies a thread: its wait in the application, and its CPU."""
    blocked_s, cpu_s = record.tasks.alone_blocked_s, _cpu_s(record, with_load_tool=False)
    if blocked_s is None or cpu_s is None:
        return record.baseline.alone_s
    return blocked_s + cpu_s


def _cpu_s(record: Record, with_load_tool: bool) -> float | None:
    """Return the CPU time of a request in s; None if a part of it is unknown."""
    server_ms, tool_s = record.resources.cpu_ms_per_request, record.load.cpu_s
    if server_ms is None:
        return None
    if not with_load_tool:
        return server_ms / 1000
    return None if tool_s is None else server_ms / 1000 + tool_s / (record.result.completed or 1)


def _option(
    case: Case, found: Sequence[Record], own: Sequence[Record], probe: OneProcess | None
) -> Option:
    """Return an option; `found` are the windows of its server, and `own` are all its records.

    It has no share of the best rate yet, and no comparison.
    """
    known = [m for r in found if (m := r.application.worker_pss_mib) is not None]
    return Option(
        case,
        rate.of_windows(found),
        max(known, default=None),
        failed=rate.failed_share(own),
        prediction=None if probe is None else probe.predict(case.server, sizes.size_of(case)),
    )


def _fitting_places(question: Question, options: Mapping[int, Option]) -> list[int]:
    """Return the places that fit into the memory; raise RunError if no measured one does."""
    limit = question.memory_mib
    if limit is None:
        return [*options]
    found = [p for p, o in options.items() if o.memory_mib is None or o.memory_mib <= limit]
    if found:
        return found
    least = min(options.values(), key=lambda o: o.memory_mib or math.inf)
    needed_mib = least.memory_mib or math.inf
    raise constraints.too_little_memory(limit, "measured server", least.case.server, needed_mib)


def _shares(windows: Mapping[int, Sequence[Record]]) -> dict[int, float]:
    """Return the rate of each place relative to the place that was measured in most rounds.

    It is the mean ratio within rounds, in which both were measured at the same time, or without
    such a round the ratio of the mean rates.
    """
    rates = {place: _rates(found) for place, found in windows.items()}
    reference = max(rates, key=lambda place: len(rates[place]))
    base = rates[reference]
    mean = statistics.geometric_mean(base.values())
    found = {}
    for place, own in rates.items():
        pairs = [value / base[which] for which, value in own.items() if which in base]
        unpaired = [value / mean for value in own.values()]
        found[place] = statistics.geometric_mean(pairs or unpaired)
    return found


def _find_ties(
    places: Sequence[int], windows: Mapping[int, Sequence[Record]], shares: Mapping[int, float]
) -> list[int]:
    """Return the fastest of some places, followed by those that may be as fast."""
    fastest = max(places, key=lambda place: shares[place])
    found = [fastest]
    for place in places:
        verdict = comparison.compare(windows[fastest], windows[place]).verdict
        if place != fastest and certainty.is_tie(verdict, shares[place] / shares[fastest]):
            found.append(place)
    return found


def _compare(option: Option, best: Sequence[Record], own: Sequence[Record], share: float) -> Option:
    """Return an option with its share of the best rate, and its comparison if there is one."""
    found = comparison.compare(best, own)
    return replace(option, share=share, compared=found if found.verdict.pairs else None)


def _worker_memory(records: Sequence[Record]) -> WorkerMemory | None:
    known = [r.application for r in records if r.application.worker_pss_mib is not None]
    if not known:
        return None
    return WorkerMemory(known[-1].worker_pss_mib, known[-1].worker_private_mib)
