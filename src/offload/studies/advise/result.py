"""From records to evidence: what the rounds and the loads say of each set-up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from offload.causes.gains import Gain, Switch, estimate_gain
from offload.engine.record import LONG, WINDOW, Memory, Record
from offload.errors import FAILED_REQUEST
from offload.loads.engine import figures
from offload.registry import catalog
from offload.studies.advise.costs import Costs
from offload.studies.advise.evidence import (
    LOOPS,
    MOST_FAILED,
    SOME_MORE,
    TOLERATED,
    Evidence,
    KeepAlive,
    Latency,
    Setup,
    kind_of,
)
from offload.suites import Case
from offload.units import percent

ALONE = 0  # the round in which one process of one server is measured, for its costs
SWITCHES = 1  # the block in which a set-up is measured with and without switches
PROMISING = 1.5  # ratio of the rates in each of two rounds, from which a third one starts anyway
ERRORS = "5xx"  # responses with such a status, as load tools count them
UNFINISHED = "unfinished"
BEYOND = 10  # responses that a percentile needs beyond it
QUANTILES = (0.99, 0.95, 0.9, 0.5)
Z_95 = 1.96  # standard deviations of a normal 95 % interval
LEAST_LEAK, LEAST_LEAK_MIB = 0.1, 16.0  # growth by a leak: more than both; guesses
THREAD_MIB = 1.0  # growth until each thread has its buffers; 0.6 MiB with SQLite and urllib
STEADY = 0.5  # share of the mean growth that the last one has at least
LONGER = 1.2  # ratio of the requests of two loads whose memory is compared


def case_of(setup: Setup, case: Case, users: int) -> Case:
    """Return the case of a set-up for the task of `case`, with `users`."""
    entry = catalog.find_server(setup.server)
    settings: dict[str, object] = {}
    if "processes" in entry.settings:
        settings["processes"] = setup.processes
    if setup.workers is not None:
        is_process = entry.workers_are == "processes"
        settings["workers"] = setup.processes if is_process else setup.workers
    return replace(case, server=setup.server, settings=settings, users=users)


def setup_of(case: Case) -> Setup:
    """Return the set-up that a case measures."""
    entry = catalog.find_server(case.server)
    kind, workers = kind_of(entry), int(str(case.settings.get("workers", 1)))
    if entry.workers_are == "processes":
        return Setup(case.server, kind, workers, 1)
    processes = int(str(case.settings.get("processes", 1)))
    return Setup(case.server, kind, processes, None if kind == LOOPS else workers)


def is_variant(case: Case) -> bool:
    """Whether a case is a set-up with other settings, whose rates are not compared."""
    return case.keep_alive or bool(case.settings.keys() & {"preload", "backlog"})


def is_raced(record: Record) -> bool:
    """Whether a record is of the race, or of a load after it."""
    return record.trial.round != ALONE and record.trial.block != SWITCHES


def switched(case: Case, switch: Switch) -> Case | None:
    """Return a case with a switch; None if it has that already, or its server lacks a setting."""
    if switch.settings.keys() - catalog.find_server(case.server).settings.keys():
        return None
    changed = replace(
        case,
        variables={**case.variables, **switch.variables},
        settings={**case.settings, **switch.settings},
        keep_alive=case.keep_alive if switch.keep_alive is None else switch.keep_alive,
    )
    return None if changed == case else changed


def gains(
    causes: Mapping[str, Switch], case: Case, cases: Sequence[Case], records: Sequence[Record]
) -> dict[str, Gain]:
    """Return the measured gains of the switches of a case, by kind of cause."""
    own = [each for each in records if each.trial.block == SWITCHES]

    def windows(of: Case | None) -> list[Record]:
        index = cases.index(of) if of in cases else None
        return [each for each in own if each.trial.case_index == index]

    plain = windows(case)
    if not plain and case in cases:  # the race had both in one block
        index = cases.index(case)
        plain = [
            replace(each, trial=replace(each.trial, block=SWITCHES))
            for each in records
            if is_raced(each) and each.trial.case_index == index
        ]
    return {
        kind: gain
        for kind, switch in causes.items()
        if (gain := estimate_gain(switch.text, plain, windows(switched(case, switch)))) is not None
    }


def is_promising(records: Sequence[Record], plain: int, *changed: int) -> bool:
    """Whether a changed case was far faster in each round: two rounds hardly prove that."""
    rates = {
        (each.trial.case_index, each.trial.round): each.result.rate or 0.0
        for each in records
        if each.trial.block == SWITCHES
    }
    rounds = [number for index, number in rates if index == plain]
    return any(
        all(rates.get((index, n), 0.0) >= PROMISING * rates[plain, n] for n in rounds)
        for index in changed
    )


def variables_gain(switch: Switch, cases: Sequence[Case], records: Sequence[Record]) -> Gain | None:
    """Return the gain of the set-up that was measured with a switch's variables beside the choice.

    None if it was not measured.
    """
    by_case: dict[int, list[Record]] = {}
    for each in records:
        if each.trial.block == SWITCHES:
            by_case.setdefault(each.trial.case_index or 0, []).append(each)
    changed = [i for i in by_case if switch.variables.items() <= cases[i].variables.items()]
    plain = [i for i in by_case if i not in changed]
    if not changed or not plain:
        return None
    name = setup_of(cases[changed[0]]).name
    same = name == setup_of(cases[plain[0]]).name
    how = switch.text if same else f"{name} and {switch.text}"
    return estimate_gain(how, by_case[plain[0]], by_case[changed[0]])


def keep_alive(setup: Setup, cases: Sequence[Case], records: Sequence[Record]) -> KeepAlive | None:
    """Return what a set-up showed on reused connections; None if that was not measured."""
    own = {index for index, each in enumerate(cases) if each.keep_alive and setup_of(each) == setup}
    loads = [each for each in records if each.trial.case_index in own and each.problem is None]
    found = _latencies(loads)
    return KeepAlive(found[-1], loads[-1].resources.requests or ()) if found else None


def preloads(setup: Setup, cases: Sequence[Case], records: Sequence[Record]) -> dict[str, float]:
    """Return the memory of a set-up after load and a collection, by its setting preload."""
    found = {}
    for record in records:
        case, memory = cases[record.trial.case_index or 0], record.resources.memory
        preload = str(case.settings.get("preload", ""))
        if preload and setup_of(case) == setup and memory.collected_mib is not None:
            found[preload] = memory.collected_mib
    return found


def evidence(
    cases: Sequence[Case],
    records: Sequence[Record],
    costs: Costs | None,
    is_brief: bool = False,
) -> list[Evidence]:
    """Return what the records say of each set-up; of several cases the one with most users.

    With a leak the memory depends on the number of calls: it is unknown. Variants of a set-up are
    left out, and one process alone, which only a brief race counts if it does not repeat it.
    """
    newest: dict[Setup, list[Record]] = {}
    for index, case in enumerate(cases):
        if not is_variant(case):
            setup = setup_of(case)
            own = [each for each in records if each.trial.case_index == index]
            if raced := [each for each in own if is_raced(each)]:
                newest[setup] = raced
            alone = [each for each in own if each.trial.block != SWITCHES and each.result.rate]
            if is_brief and alone:
                newest.setdefault(setup, alone)
    found = _without_more_failures([_evidence(setup, of) for setup, of in newest.items()])
    leaks = confirmed_leak_mib(costs, records) is not None
    return [replace(each, memory_mib=None) for each in found] if leaks else found


def _without_more_failures(found: Sequence[Evidence]) -> list[Evidence]:
    """Mark set-ups of which more requests fail than by themselves: than in the best set-up."""
    fewest = min((each.failed for each in found if each.rates), default=0.0)
    most = SOME_MORE * fewest + MOST_FAILED
    return [
        replace(each, problem=_describe_failures(each.failed))
        if each.problem is None and each.failed > most
        else each
        for each in found
    ]


def _describe_failures(share: float) -> str:
    return f"{percent(share, 1)} of the requests fail under load"


def confirmed_leak_mib(costs: Costs | None, records: Sequence[Record]) -> float | None:
    """Return the growth of the memory by each request; None if there is none, or it is unknown.

    That of a few calls alone does not count if a server that ran more of them stayed smaller: the
    memory of a library, such as BLAS or libxml2, also grows during its first calls.
    """
    alone_mib = None if costs is None else costs.leak_mib
    if costs is None or not alone_mib:
        return leak_mib(records)
    served: dict[tuple[object, ...], int] = {}  # by loads of the same server
    for each in records:
        whole_mib, requests = each.resources.memory.whole_mib, each.result.completed
        if each.problem is not None or whole_mib is None or not requests:
            continue
        if each.trial.kind == LONG:
            key = (each.trial.case_index, each.case.seconds)
            requests = served[key] = served.get(key, 0) + requests
        if whole_mib - costs.process_mib < STEADY * alone_mib * requests:
            return leak_mib(records)
    return alone_mib


def leak_mib(records: Sequence[Record]) -> float | None:
    """Return the growth of the memory by each request, if it is steady; None if it is not known.

    Repeated loads of the same servers are compared, or else shorter and longer loads of a set-up.
    """
    by_server = _leaks_of_servers(records)
    if by_server:
        return min(by_server) if all(by_server) else None
    by_setup = _leaks_of_setups(records)
    return min(by_setup) if by_setup and all(by_setup) else None


def _leaks_of_servers(records: Sequence[Record]) -> list[float]:
    """Return the growth by each request of each server with three loads; 0 if it is not steady.

    Loads at the same rate are compared if there are three: the memory also grows with the rate,
    but only once.
    """
    loads: dict[tuple[object, ...], list[Record]] = {}
    for each in records:
        if each.trial.kind == LONG and each.problem is None and each.resources.memory.whole_mib:
            key = (each.trial.case_index, each.case.seconds)
            loads.setdefault(key, []).append(each)
    found = []
    for several in loads.values():
        same = [each for each in several if each.case.asked_rate == several[-1].case.asked_rate]
        if len(compared := same if len(same) > 2 else several) > 2:
            later = several[several.index(compared[0]) + 1 :]
            found.append(_growth(compared) / _requests(later))
    return found


def _leaks_of_setups(records: Sequence[Record]) -> list[float]:
    """Return the growth by each request of each set-up with loads of three lengths; 0 if unsteady.

    Each length has servers of its own: those of the race, and those at a rate with and without
    kept connections. What grows once, as caches do, does not grow with the requests of each.
    """
    by_setup: dict[str, dict[tuple[object, ...], list[Record]]] = {}
    for each in records:
        if is_raced(each) and each.problem is None and each.result.completed and _memory_mib(each):
            length = (each.trial.kind, each.case.seconds, each.case.keep_alive)
            by_setup.setdefault(each.case.id, {}).setdefault(length, []).append(each)
    found = []
    for lengths in by_setup.values():
        points: list[tuple[float, float]] = []
        for requests, mib in sorted(point for own in lengths.values() for point in _served(own)):
            if not points or requests > LONGER * points[-1][0]:
                points.append((requests, mib))
        if len(points) > 2:
            threads = (each.resources.threads or 0 for own in lengths.values() for each in own)
            found.append(_growth_by_request(points, max(threads)))
    return found


def _served(loads: Sequence[Record]) -> list[tuple[float, float]]:
    """Return requests of loads of one length, and the memory in MiB after them.

    Loads at a rate are of one server, windows each of their own: their median is returned.
    """
    if loads[0].trial.kind == LONG:
        return [(_requests(loads[: n + 1]), _memory_mib(each)) for n, each in enumerate(loads)]
    middle = sorted(loads, key=_memory_mib)[len(loads) // 2]
    return [(_requests([middle]), _memory_mib(middle))]


def _growth_by_request(points: Sequence[tuple[float, float]], threads: int) -> float:
    """Return the growth in MiB by each request, of (requests, MiB); 0 if it is not steady.

    `threads` have buffers of their own.
    """
    (first, first_mib), (last, last_mib) = points[0], points[-1]
    mean_mib = (last_mib - first_mib) / (last - first)
    is_steady = all(
        after_mib - before_mib > STEADY * mean_mib * (after - before)
        for (before, before_mib), (after, after_mib) in pairwise(points)
    )
    least_mib = max(LEAST_LEAK_MIB, LEAST_LEAK * first_mib, THREAD_MIB * threads)
    is_leak = last_mib - first_mib > least_mib
    return mean_mib if is_leak and is_steady else 0.0


def _memory_mib(record: Record) -> float:
    return record.resources.memory.whole_mib or 0.0


def _growth(loads: Sequence[Record]) -> float:
    """Return the growth of the memory from the first load to the last; 0 if it is not steady."""
    sizes = [_memory_mib(each) for each in loads]
    steps = [after - before for before, after in pairwise(sizes)]
    growth = sizes[-1] - sizes[0]
    is_steady = steps[-1] > STEADY * growth / len(steps)
    threads_mib = THREAD_MIB * (loads[-1].resources.threads or 0)
    least_mib = max(LEAST_LEAK_MIB, LEAST_LEAK * sizes[0], threads_mib)
    return growth if is_steady and growth > least_mib else 0.0


def _requests(loads: Sequence[Record]) -> float:
    completed = sum(each.result.completed or 0 for each in loads)
    return completed or math.inf  # without requests nothing has grown by them


def _evidence(setup: Setup, records: Sequence[Record]) -> Evidence:
    windows = [each for each in records if each.trial.kind == WINDOW]
    works = [each for each in windows if each.problem is None and each.result.rate]
    problems = [each.problem for each in windows if each.problem is not None]
    first = [each for each in problems if each.kind == FAILED_REQUEST]
    if len(first) < len(works):  # a call that fails by itself may be the first one of a round
        problems = [each for each in problems if each not in first]
    failed = next(iter(problems), None)
    counts = Counter[str]()
    for each in works:
        counts.update({kind: count for kind, count in each.result.failed.items() if count})
    del counts[UNFINISHED]  # they are no failures, unless the load stops because of them
    requests = counts.total() + sum(each.result.completed or 0 for each in works)
    failed_share = counts.total() / max(1, requests)
    others_share = (counts.total() - counts[ERRORS]) / max(1, requests)
    problem = None if failed is None else failed.message
    if failed is None and (failed_share > TOLERATED or others_share > MOST_FAILED):
        problem = f"{_describe_failures(failed_share)} ({', '.join(sorted(counts))})"
    loads = [each for each in records if each.trial.kind == LONG and each.problem is None]
    memories = [mib for each in (*works, *loads) if (mib := each.resources.memory.whole_mib)]
    idle = next((m for e in loads[::-1] if (m := e.resources.memory).after_mib), Memory())
    cpu = [ms for each in works if (ms := each.resources.cpu_ms_per_request)]
    shares = [share for each in works if (share := _client_share(each)) is not None]
    return Evidence(
        setup,
        {each.trial.round or 1: each.result.rate or 0.0 for each in works},
        memory_mib=max(memories, default=None),
        started_mib=idle.started_mib,
        after_mib=idle.after_mib,
        collected_mib=idle.collected_mib,
        cpu_ms=_median(cpu),
        users=records[-1].case.users,
        client_share=_median(shares),
        latencies=tuple(_latencies(loads)),
        problem=problem,
        failed=failed_share,
    )


def _client_share(record: Record) -> float | None:
    """Return the share of the CPU time of server and load tool that the tool used."""
    tool_s, server_s = record.load.cpu_s, record.resources.cpu_s
    if tool_s is None or server_s is None or not tool_s + server_s:
        return None
    return tool_s / (tool_s + server_s)


def _latencies(loads: Sequence[Record]) -> list[Latency]:
    by_rate: dict[float, list[Record]] = {}
    for each in loads:
        if each.case.asked_rate is not None:
            by_rate.setdefault(each.case.asked_rate, []).append(each)
    found = (_latency(rate, by_rate[rate]) for rate in sorted(by_rate))
    return [each for each in found if each is not None]


def _latency(rate: float, loads: Sequence[Record]) -> Latency | None:
    """Return the highest percentile that the responses of all loads at one rate show."""
    bounds = [each.result.response.at_least_s for each in loads]
    at_least_s = min((bound for bound in bounds if bound is not None), default=None)
    histograms = [each.result.response.histogram or {} for each in loads]
    counts = figures.merge_histograms(histograms)
    total = sum(counts.values())
    share = next((q for q in QUANTILES if total * (1 - q) >= BEYOND), QUANTILES[-1])
    value = figures.histogram_quantile(counts, share, at_least_s)
    if value is None:
        return None
    margin = Z_95 * math.sqrt(share * (1 - share) / total)  # of the binomial distribution
    ends = [
        figures.histogram_quantile(counts, min(1.0, share + m), at_least_s)
        for m in (-margin, margin)
    ]
    loads_s = [figures.histogram_quantile(one, share, at_least_s) for one in histograms]
    each_s = [value, *(found for found in (*loads_s, *ends) if found)]
    failed = sum(each.result.failures or 0 for each in loads)
    return Latency(
        rate,
        share,
        value,
        min(each_s),
        max(each_s),
        figures.histogram_quantile(counts, 0.5, at_least_s),
        figures.histogram_quantile(counts, 0.95, at_least_s),
        failed / max(1, failed + total),
    )


def _median(values: Sequence[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None
