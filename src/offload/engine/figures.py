"""What records say: the rate of a case, the comparison of two, disturbances, limits and ceilings.

Everything here is derived from records, and from numbers by `intervals` and `decisions`.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offload.engine import decisions, intervals
from offload.engine.decisions import DISTURBED, FASTER, SAME, SLOWER, TINY, UNRESOLVED, Verdict
from offload.engine.host import MOST_NAMED
from offload.engine.intervals import Estimate, estimate
from offload.engine.record import (
    WINDOW,
    Record,
    RoundKey,
    RunRecords,
    Value,
    average_by_round,
    pairs_by_round,
    select_for_rate,
)
from offload.errors import STALLED, TOO_SLOW, Flag, RunError
from offload.loads.engine.figures import GROWTH, histogram_quantile, merge_histograms
from offload.registry import catalog
from offload.suites import Case, load_suite
from offload.units import percent

# Share of periods in which a quota stops a server, from which it is named. Alerts for containers
# use 25 %: CPUThrottlingHigh of github.com/kubernetes-monitoring/kubernetes-mixin
THROTTLED = 0.25
HOPELESS = 2  # rounds without a rate after which a case is not measured again


def estimate_rate(windows: Sequence[Record]) -> Estimate:
    """Estimate a case's rate in requests/s, from the geometric mean of its windows in each round.

    Windows without a completed request are ignored; the value is None if there are no others.
    Windows with `measured_alone` are not mixed with others. The newest window determines the design
    (normal or quick) and the target.
    """
    windows = select_for_rate(windows)
    rates = [*average_by_round(windows, lambda record: record.result.rate).values()]
    quanta = [max(0.0, record.result.rate_quantum or 0.0) for record in windows]
    newest = windows[-1].trial if windows else None
    design = intervals.sequential_design(newest is not None and newest.quick)
    target = None if newest is None else newest.target
    return estimate(rates, design, target, statistics.fmean(quanta) if quanta else 0.0)


def is_hopeless(windows: Sequence[Record]) -> bool:
    """Whether a case had no rate in each of its last HOPELESS rounds, is too slow, or stalls."""
    problems = {record.problem.kind for record in windows if record.problem}
    if TOO_SLOW in problems or (STALLED in problems and not any(map(_has_rate, windows))):
        return True
    rounds: dict[tuple[int | None, int | None], bool] = {}
    for record in windows:
        which = record.trial.block, record.trial.round
        rounds[which] = rounds.get(which, False) or _has_rate(record)
    last = [*rounds.values()][-HOPELESS:]
    return len(last) == HOPELESS and not any(last)


def _has_rate(record: Record) -> bool:
    return record.problem is None and bool(record.result.rate)


def median_of(records: Sequence[Record], value_of: Value) -> float | None:
    """Return the low median of the known values; None if none is known."""
    known = [value for record in records if (value := value_of(record)) is not None]
    return statistics.median_low(known) if known else None


EFFECT, ROUGH = decisions.EFFECT, 0.05  # the smallest difference that matters; ROUGH with quick
CLIENT_BOUND = "client-bound"


@dataclass(frozen=True)
class Comparison:
    """The comparison of case `other` with case `one`.

    `disturbed` is the reason if the measurement is invalid, else None. With `at_least` the load
    tool limited the faster case, so the true difference is at least as large. With
    `is_client_bound` the load tool limited one of the cases or both.
    """

    verdict: Verdict
    disturbed: Flag | None = None
    at_least: bool = False
    is_client_bound: bool = False


def rate_of(record: Record) -> float | None:
    """Return the rate of a window in requests/s."""
    return record.result.rate


def compare_windows(
    one: Sequence[Record],
    other: Sequence[Record],
    value: Value = rate_of,
    level: float | None = None,
) -> Comparison:
    """Compare a value of two cases, paired by round, at the last level of their run's design.

    `level` overrides this level, because a run stops early only at a stricter one. Rates of rounds
    with `measured_alone` are used only if the cases have no other rounds.
    """
    if value is rate_of and pairs_by_round(select_for_rate(one), select_for_rate(other), value):
        one, other = select_for_rate(one), select_for_rate(other)
    is_quick = any(record.trial.quick for record in one)
    found = decisions.compare_pairs(
        pairs_by_round(one, other, value),
        intervals.sequential_design(is_quick).level if level is None else level,
        ROUGH if is_quick else EFFECT,
    )
    if flag := find_disturbance(one, other):
        return Comparison(replace(found, outcome=DISTURBED), flag)
    if value is not rate_of:
        return Comparison(found)
    bound = is_client_bound(one), is_client_bound(other)
    if found.outcome in (SAME, TINY) and any(bound):  # the load tool may limit both
        return Comparison(replace(found, outcome=UNRESOLVED), is_client_bound=True)
    if found.outcome in (FASTER, SLOWER):
        faster, slower = bound[::-1] if found.outcome == FASTER else bound
        if slower:  # its true rate is unknown
            return Comparison(replace(found, outcome=UNRESOLVED), is_client_bound=True)
        return Comparison(found, at_least=faster, is_client_bound=faster)
    return Comparison(found, is_client_bound=any(bound))


@dataclass(frozen=True)
class ComparedCases:
    """The comparison of two cases: with a ratio above 1, `other` is faster than `one`.

    `rates` are the rates of both cases in requests/s, and `records` their windows.
    """

    one: Case
    other: Case
    comparison: Comparison
    rates: tuple[float | None, float | None]
    records: tuple[Record, ...]
    folder: Path

    @property
    def names(self) -> tuple[str, str]:
        """The names of both cases."""
        return self.one.name, self.other.name


def compare_cases(
    one: Case,
    other: Case,
    records: Sequence[Record],
    folder: Path,
    explain: Callable[[Sequence[Record], str], str] = lambda _, problem: problem,
) -> ComparedCases:
    """Compare the two cases of a run; raise RunError when one of them has no rate.

    `explain` adds the cause of a problem to its text.
    """
    first, second = (RunRecords(records).at(each).windows() for each in (0, 1))
    rates = estimate_rate(first).value, estimate_rate(second).value
    for case, own, known in zip((one, other), (first, second), rates, strict=True):
        if known is None:
            problem = next((r.problem for r in own if r.problem), "no request was completed")
            raise RunError(f"{case.name}: {explain(own, str(problem))}; records: {folder}")
    found = compare_windows(first, second)
    return ComparedCases(one, other, found, rates, (*first, *second), folder)


def is_client_bound(windows: Sequence[Record]) -> bool:
    """Whether the load tool limited the rate in at least half of the windows."""
    bound = sum(any(flag.kind == CLIENT_BOUND for flag in r.flags) for r in windows)
    return bool(windows) and bound >= len(windows) / 2


# Shares of the machine's CPU. Windows have higher limits than long runs because a comparison uses
# the median of many windows.
LONG_OTHERS, LONG_STEAL = 0.1, 0.01  # in one long run, and for notes on tables
MAX_OTHERS, MAX_STEAL = 1 / 3, 0.05  # in half of the windows
MAX_DIFFERENCE = 0.10  # between the means of the two cases


def find_disturbance(one: Sequence[Record], other: Sequence[Record]) -> Flag | None:
    """Return the reason if the windows of two cases cannot be compared, else None.

    With an empty `other`, the reason is about the figures of one case.
    """
    windows = [*one, *other]
    remedy = "end the other processes (see offload doctor), or measure at a quieter time"
    others, steal = _known_shares(windows, "others_cpu"), _known_shares(windows, "steal")
    if _in_half(others, MAX_OTHERS):
        used = f"other processes used {percent(statistics.median(others))} of the machine's CPU"
        return Flag("disturbed", f"{used}{name_others(windows)}", remedy)
    if _in_half(steal, MAX_STEAL):
        used = f"the hypervisor used {percent(statistics.median(steal))} of the machine's CPU"
        return Flag("disturbed", used, "measure at a quieter time")
    first, second = _known_shares(one, "others_cpu"), _known_shares(other, "others_cpu")
    if not first or not second:
        return None
    means = statistics.fmean(first), statistics.fmean(second)
    if abs(means[0] - means[1]) > MAX_DIFFERENCE:
        shares = (
            f"{percent(means[0])} of the machine's CPU during one case, "
            f"{percent(means[1])} during the other"
        )
        return Flag("disturbed", f"other processes used {shares}", remedy)
    return None


def name_others(records: Sequence[Record]) -> str:
    """Return the other processes that were busy in most records, as ": a (pid 7), b (pid 8)"."""
    seen = Counter(name for record in records for name in record.resources.host.others)
    named = ", ".join(name for name, _ in seen.most_common(MOST_NAMED))
    return f": {named}" if named else ""


def _known_shares(windows: Sequence[Record], name: str) -> list[float]:
    """Return the known values of a share of the machine's CPU, by its field in `HostUse`."""
    shares = (getattr(record.resources.host, name) for record in windows)
    return [share for share in shares if share is not None]


def _in_half(shares: Sequence[float], limit: float) -> bool:
    return bool(shares) and sum(share > limit for share in shares) >= len(shares) / 2


MIN_WINDOWS = 5  # with fewer windows the change is unknown
SPEED_KINDS = ("python_s", "memory_s")


def speed_change(*runs: Sequence[Record]) -> float | None:
    """Return the share by which the machine's speed changed during runs and between them.

    It is that of the kind of work (Python or memory) that changed more. None if a run is too short.
    """
    times = [work_times(records) for records in runs]
    found = [change_of_times(*(each[kind] for each in times)) for kind in SPEED_KINDS]
    return max((share for share in found if share is not None), default=None)


def change_of_times(*runs: Sequence[float]) -> float | None:
    """Return max(p90) / min(p10) - 1 of the durations, with the percentiles of each run.

    None if a run has fewer than MIN_WINDOWS durations.
    """
    if not runs or any(len(times) < MIN_WINDOWS for times in runs):
        return None
    tenths = [statistics.quantiles(times, n=10, method="inclusive") for times in runs]
    return max(each[-1] for each in tenths) / min(each[0] for each in tenths) - 1


def work_times(records: Sequence[Record]) -> dict[str, list[float]]:
    """Return the durations in s of each kind of fixed work before the windows, by its field."""
    hosts = [record.resources.host for record in records if record.trial.kind == WINDOW]
    return {
        kind: [time for host in hosts if (time := getattr(host, kind) or 0.0) > 0]
        for kind in SPEED_KINDS
    }


Windows = Sequence[Record]
RATE, P99 = "rate", "p99"


@dataclass(frozen=True)
class Measured:
    """A figure and its interval; without a value it is unknown, and may be any number."""

    value: float | None = None
    low: float = -math.inf
    high: float = math.inf


UNKNOWN_FIGURE = Measured()


def measure_figure(name: str, windows: Windows, level: float) -> Measured:
    """Return a figure of a case from its windows; each end has the one-sided error rate `level`.

    The rate is in requests/s, the 99th percentile of response times in s.
    """
    if name == P99:
        return _response_quantile(select_for_rate(windows), 0.99, level)
    return _mean([*average_by_round(select_for_rate(windows), rate_of).values()], level)


def log_ratio(baseline: Windows, windows: Windows) -> decisions.LogRatio | None:
    """Return the ratio of both rates, from the rounds in which both were measured."""
    baseline, windows = select_for_rate(baseline), select_for_rate(windows)
    return decisions.paired_ratio(pairs_by_round(baseline, windows, rate_of))


def _mean(values: Sequence[float], level: float) -> Measured:
    """Return the geometric mean of values above 0, with the t interval of their logarithms."""
    if len(values) < 2:
        return Measured(values[0] if values else None)
    low, high = intervals.mean_interval([math.log(value) for value in values], 2 * level)
    return Measured(
        statistics.geometric_mean(values),
        intervals.exp_or_infinity(low),
        intervals.exp_or_infinity(high),
    )


def _response_quantile(windows: Windows, share: float, level: float) -> Measured:
    """Return a quantile of the response times of all requests.

    A request that timed out took its timeout or longer, so an end beyond the timeout is unknown.
    """
    rounds = _counts_by_round(windows)
    if not rounds:
        return UNKNOWN_FIGURE
    below, inside = intervals.quantile_buckets(rounds, share, level)
    timeouts = [record.result.response.at_least_s for record in windows]
    timeout_s = min((known for known in timeouts if known is not None), default=math.inf)
    low = 0.0 if below is None else GROWTH**below
    high = math.inf if inside is None else GROWTH**inside
    all_counts = merge_histograms(
        {str(bucket): n for bucket, n in counts.items()} for counts in rounds
    )
    value = histogram_quantile(all_counts, share)
    return Measured(value, min(low, timeout_s), high if high < timeout_s else math.inf)


def _counts_by_round(windows: Windows) -> list[Counter[int]]:
    """Return for each round the number of requests in all its windows, by bucket."""
    rounds: dict[RoundKey, Counter[int]] = {}
    for record in windows:
        if counts := record.result.response.histogram:
            trial = record.trial
            own = rounds.setdefault((trial.run, trial.block, trial.round), Counter())
            own.update({int(bucket): count for bucket, count in counts.items()})
    return [*rounds.values()]


POOL, USERS, CPU = "pool", "users", "cpu"


@dataclass(frozen=True)
class Ceiling:
    """An upper bound of the rate in requests/s; `kind` names the limiting resource."""

    kind: str
    rate: float


def little_ratio(rate: float | None, response_s: float | None, users: float | None) -> float | None:
    """Return X R / c: 1 if rate x mean response time equals the number of concurrent `users`.

    The ratio is meaningless if the response time was itself derived by Little's law. Raise
    ValueError for negative numbers. Source: Little 1961, A proof for the queuing formula L = lambda
    W.

    >>> round(little_ratio(14.29, 1.75, 25), 3)
    1.0
    """
    _check_laws(rate, response_s, users)
    if rate is None or response_s is None or not users:
        return None
    return rate * response_s / users


def ceilings(
    *,
    workers: float | None = None,
    service_s: float | None = None,
    users: float | None = None,
    cores: float | None = None,
    cpu_s: float | None = None,
) -> list[Ceiling]:
    """Return the ceilings whose inputs are known, the lowest first.

    pool: workers / service_s, if a request occupies one worker for `service_s`;
    users: users / service_s, if each user has one request in flight, which takes `service_s` or
    longer;
    cpu: cores / cpu_s, if a request takes `cpu_s` of CPU time in all processes of the server.
    A time of 0 has no ceiling. Raise ValueError for negative numbers.

    Source: the operational laws of Denning and Buzen 1978, The operational analysis of queueing
    network models (utilisation law and asymptotic bounds).

    >>> [(each.kind, round(each.rate, 2)) for each in ceilings(workers=4, service_s=0.28, users=25)]
    [('pool', 14.29), ('users', 89.29)]
    """
    _check_laws(workers, service_s, users, cores, cpu_s)
    bounds = [(POOL, workers, service_s), (USERS, users, service_s), (CPU, cores, cpu_s)]
    known = [
        Ceiling(kind, count / seconds)
        for kind, count, seconds in bounds
        if count is not None and seconds  # neither None nor 0
    ]
    return sorted(known, key=lambda ceiling: ceiling.rate)


def share_of_ceiling(rate: float | None, known: Sequence[Ceiling]) -> float | None:
    """Return `rate` as a share of the lowest ceiling; more than 1 indicates an error."""
    _check_laws(rate)
    lowest = min((ceiling.rate for ceiling in known), default=None)
    return None if rate is None or not lowest else rate / lowest


def _check_laws(*numbers: float | None) -> None:
    if not all(number is None or 0 <= number < math.inf for number in numbers):
        raise ValueError(
            f"rates, times and counts must be numbers of 0 or more or None, not {numbers}"
        )


# The ceilings of a case: a count and a time of its records for the laws above


ABOVE_CEILING = 1.02  # rate over ceiling, above which the ceiling is exceeded
SHORT_S = 0.01  # a shorter request is mostly hops and wake-ups, which overlap under load
SATURATED = 0.98  # requests in flight (Little's law) as a share of the slots: all slots are busy


def case_ceiling(case: Record, records: Sequence[Record], in_flight: float) -> Ceiling | None:
    """Return the lowest known ceiling of a case, from the median times of its records.

    `case` is any of the `records`, from which constant fields are read. `in_flight` is the mean
    number of concurrent requests. If it is below the number of slots, the time per slot includes
    idle time and cannot be used as a service time.
    """
    workers, slots = case.server.all_workers, all_slots(case)
    alone_s = median_of(records, lambda r: r.baseline.alone_s)
    slot_s = median_of(records, lambda r: r.tasks.slot_s)
    if slot_s and in_flight >= SATURATED * (slots or workers or 1):
        # An event loop has one slot; with async tasks, which share it, the slots are unknown.
        known = _by_time(slot_s, workers=slots or workers)
    elif _is_cluster(case):
        known = []
    else:
        known = _by_time(alone_s, workers=workers)
    known += _by_time(alone_s, users=case.case.users)
    known += _by_stated_slots(case, _fastest_s(records))
    cores = case.environment.get("cores")
    cpu_ms = median_of(records, lambda r: r.resources.cpu_ms_per_request)
    if isinstance(cores, int) and cpu_ms is not None:
        known += ceilings(cores=cores, cpu_s=cpu_ms / 1000)
    return min(known, key=lambda ceiling: ceiling.rate, default=None)


def exceeded_ceiling(record: Record, records: Sequence[Record]) -> Ceiling | None:
    """Return a ceiling that a record's rate exceeds, which indicates an error; else None.

    No request is faster than the fastest single request in the case's `records`. The time per slot
    may include idle time here: no rate can be above slots / time in any case.
    """
    fastest_s = _fastest_s(records)
    known = [
        *_by_time(fastest_s, users=record.case.users),
        *ceilings(workers=all_slots(record), service_s=record.tasks.slot_s),
        *_by_stated_slots(record, fastest_s),
    ]
    return next((c for c in known if (record.result.rate or 0.0) > ABOVE_CEILING * c.rate), None)


def pool_rate(case: Record, records: Sequence[Record]) -> float | None:
    """Return the rate that the workers allow: workers / high median time of a single request.

    It is unknown for a cluster.
    """
    if _is_cluster(case):
        return None
    known = [r.baseline.alone_s for r in records if r.baseline.alone_s is not None]
    alone_s = statistics.median_high(known) if known else None
    return next((c.rate for c in _by_time(alone_s, workers=case.server.all_workers)), None)


def _is_cluster(record: Record) -> bool:
    """Whether a scheduler passes tasks to workers by messages.

    A single request then takes much longer than it occupies a worker.
    """
    return "dask_isolate" in record.server.settings


def all_slots(record: Record) -> int | None:
    """Return the number of slots of a server, which reports those of one process."""
    slots, server = record.tasks.slots, record.server
    if slots is None or server.processes is None:
        return slots
    return server.all_workers or slots * server.processes


def _by_time(
    service_s: float | None, workers: float | None = None, users: float | None = None
) -> list[Ceiling]:
    """Return the ceilings of a service time; none if it is too short to be a service time."""
    if service_s is None or service_s < SHORT_S:
        return []
    return ceilings(workers=workers, users=users, service_s=service_s)


def _by_stated_slots(record: Record, alone_s: float | None) -> list[Ceiling]:
    """Return the ceiling of a case whose suite states its slots: processes x slots / time."""
    request = tuple((record.case.request or {}).values())
    case = (record.case.server, record.case.task, *request)
    slots = _stated_slots(record.trial.suite or "").get(case)
    if slots is None:
        return []
    processes = record.server.settings.get("processes", record.server.workers)
    return _by_time(alone_s, workers=slots * (processes if isinstance(processes, int) else 1))


def _fastest_s(records: Sequence[Record]) -> float | None:
    return min((r.baseline.alone_s for r in records if r.baseline.alone_s), default=None)


@functools.cache
def _stated_slots(suite: str) -> Mapping[tuple[object, ...], int]:
    """Return the slots that a suite's cases and quick cases state, by server, task and request."""
    if suite not in catalog.suites():
        return {}
    return {
        (each.server, each.task, *(each.request.key if each.request else ())): case.slots
        for case in load_suite(suite).CASES
        if case.slots is not None
        for each in (case, case.quick())
    }
