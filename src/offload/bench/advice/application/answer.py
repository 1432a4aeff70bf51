"""The answer for an application: which server and size, from the records of a run."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from offload import files
from offload.bench.advice import latency
from offload.bench.advice.answer import FILE, LIKELY, SURE, TIE, WORSE
from offload.bench.advice.application import causes, sizes
from offload.bench.advice.application.causes import Cause
from offload.bench.advice.application.sizes import Size
from offload.bench.advice.latency import Percentile
from offload.bench.analysis import comparison, rate
from offload.bench.analysis.comparison import Comparison
from offload.bench.planning.plan import Plan
from offload.bench.records import lines
from offload.bench.records.record import LONG, Record
from offload.bench.records.run_records import Round, RunRecords, by_round
from offload.bench.stats.estimate import Estimate
from offload.bench.stats.paired_test import DISTURBED, FASTER, SLOWER, UNRESOLVED
from offload.errors import RunError, StorageError
from offload.flags import Flag, Problem
from offload.suites import Case

PROBE_BLOCK = 0  # one server with one process, alone; the blocks after it compare


@dataclass(frozen=True)
class Question:
    """What is asked about an application: its load, and the constraints.

    `kinds` are asgi and wsgi. The constraints are the memory of all server processes in MiB and the
    99th percentile of response times in s; None is no constraint. `name` is that of the application
    in its module, None for settings of Django.
    """

    work: str
    kinds: tuple[str, ...]
    users: int
    cores: int
    memory_mib: float | None = None
    p99_s: float | None = None
    name: str | None = None


@dataclass(frozen=True)
class Option:
    """A measured server and size: its rate, its memory, and its comparison with the chosen one.

    `worker_mib` is the memory (PSS) of its largest process. The ratio is unknown for a server that
    was not measured beside the chosen one: then `share` is derived by way of a third one.
    """

    case: Case
    rate: Estimate
    worker_mib: float | None
    share: float | None = None
    compared: Comparison | None = None

    @property
    def size(self) -> Size:
        """Its processes and threads."""
        return sizes.size_of(self.case)

    @property
    def memory_mib(self) -> float | None:
        """About the memory of all its processes: that of the largest one for each."""
        return None if self.worker_mib is None else self.worker_mib * self.size.processes


@dataclass(frozen=True)
class WorkerMemory:
    """The memory (PSS) of the largest process in MiB, and what it shares with no other process."""

    pss_mib: float | None
    private_mib: float | None


@dataclass(frozen=True)
class ApplicationAnswer:
    """The chosen server and the others, the highest rate first.

    `tie` are the servers that do not differ from the chosen one for certain. `causes` are those of
    one process under all users, and `remaining` those of the chosen size. `percentiles` are those
    at `latency.LOADS`. `largest` tells whether no larger size of the chosen server was measured.
    `memory_mib` is that of all processes, `worker` that of one, `preloaded` with the application
    imported before the fork; None if the server cannot do that, or it is unknown.
    """

    question: Question
    chosen: Option
    others: tuple[Option, ...]
    tie: tuple[str, ...]
    causes: tuple[Cause, ...]
    remaining: tuple[Cause, ...]
    alone_s: float | None
    largest: bool
    percentiles: tuple[Percentile, ...] = ()
    memory_mib: float | None = None
    worker: WorkerMemory | None = None
    preloaded: WorkerMemory | None = None
    disturbed: Flag | None = None
    problems: tuple[Problem, ...] = ()
    is_interrupted: bool = False

    @property
    def sure(self) -> str:
        """How sure the answer is: SURE, LIKELY, TIE or DISTURBED."""
        if self.disturbed is not None:
            return DISTURBED
        if len(self.tie) > 1:
            return TIE
        outcomes = {o.compared.verdict.outcome for o in self.others if o.compared is not None}
        return SURE if outcomes and not outcomes & {UNRESOLVED, FASTER} else LIKELY


def save(question: Question, folder: Path) -> None:
    """Save a question in its run's folder."""
    values = json.dumps({"application": asdict(question)}, indent=1)
    files.replace(folder / FILE, values.encode() + b"\n")


def load(folder: Path) -> Question:
    """Read the question of a run; raise StorageError."""
    path = folder / FILE
    try:
        values = json.loads(path.read_bytes())["application"]
        question: Question = lines.built(Question, values, "question")
        return question
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "repeat the advice") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{path} is not of this version: {error}", "repeat it") from error


def evaluate(question: Question, planned: Plan, records: Sequence[Record]) -> ApplicationAnswer:
    """Choose among the servers and sizes that were measured beside each other.

    Raise RunError if none has a rate, or if none fits into the memory.
    """
    run = RunRecords(records)
    windows = _windows(planned, run)
    problems = tuple(dict.fromkeys(r.problem for r in records if r.problem))
    if not windows:
        first = problems[0] if problems else Problem("unknown", "nothing was measured")
        raise RunError(first.message, first.remedy)
    options = {place: _option(planned.cases[place], found) for place, found in windows.items()}
    allowed = _within(question, options)
    shares = _shares(windows)
    fastest = max(allowed, key=lambda place: shares[place])
    tied = [p for p in allowed if p == fastest or _is_tie(p, fastest, windows, shares)]
    chosen = min(tied, key=lambda p: sizes.preference(options[p].case.server, options[p].size))
    others = tuple(
        _compared(options[place], windows, chosen, place, shares)
        for place in sorted(options, key=lambda place: -shares[place])
        if place != chosen
    )
    return _complete(question, planned, run, options, chosen, others, tied, problems)


def _complete(
    question: Question,
    planned: Plan,
    run: RunRecords,
    options: Mapping[int, Option],
    chosen: int,
    others: tuple[Option, ...],
    tied: Sequence[int],
    problems: tuple[Problem, ...],
) -> ApplicationAnswer:
    best = options[chosen]
    own = run.at(chosen)
    loads = [r for r in own.last_attempts() if r.trial.kind == LONG]
    preloaded = [
        record
        for place, case in enumerate(planned.cases)
        if case.server == best.case.server and case.settings.get("preload") == "yes"
        for record in run.at(place).last_attempts()
        if {**case.settings, "preload": None} == {**best.case.settings, "preload": None}
    ]
    probed = [r for r in run.records if r.trial.block == PROBE_BLOCK]
    disturbed = _disturbed(others, own.windows())
    same = [o.size for o in others if o.case.server == best.case.server]
    return ApplicationAnswer(
        question,
        best,
        others,
        tuple(dict.fromkeys(options[place].case.server for place in [chosen, *tied])),
        _causes(probed, 1, question),
        _causes(own.windows(), best.size.processes, question),
        next((r.baseline.alone_s for r in probed if r.baseline.alone_s), None),
        largest=not any(size.total > best.size.total for size in same),
        percentiles=tuple(latency.percentile(record) for record in loads[: len(latency.LOADS)]),
        memory_mib=next((m for r in loads[::-1] if (m := r.resources.memory.pss_mib)), None),
        worker=_worker_memory(loads),
        preloaded=_worker_memory(preloaded),
        disturbed=disturbed,
        problems=problems,
    )


def _windows(planned: Plan, run: RunRecords) -> dict[int, list[Record]]:
    """Return the windows of each place that were measured beside others; else the probe's."""
    compared = {
        place: [r for r in run.at(place).windows() if r.trial.block != PROBE_BLOCK]
        for place in range(len(planned.cases))
    }
    known = {place: found for place, found in compared.items() if _rates(found)}
    if known:
        return known
    probed = {place: run.at(place).windows() for place in range(len(planned.cases))}
    return {place: found for place, found in probed.items() if _rates(found)}


def _rates(found: Sequence[Record]) -> Mapping[Round, float]:
    return by_round(found, comparison.rate_of)


def _option(case: Case, found: Sequence[Record]) -> Option:
    known = [m for r in found if (m := r.application.worker_pss_mib) is not None]
    return Option(case, rate.of_windows(found), max(known, default=None))


def _within(question: Question, options: Mapping[int, Option]) -> list[int]:
    """Return the places that fit into the memory; raise RunError if there is none."""
    limit = question.memory_mib
    if limit is None:
        return [*options]
    found = [p for p, o in options.items() if o.memory_mib is None or o.memory_mib <= limit]
    if found:
        return found
    least = min(options.values(), key=lambda o: o.memory_mib or math.inf)
    what = f"no server fits into {limit:.0f} MiB: {least.case.server} needs {least.memory_mib:.0f}"
    raise RunError(f"{what} MiB", "allow more memory")


def _shares(windows: Mapping[int, Sequence[Record]]) -> dict[int, float]:
    """Return the rate of each place over that of the one that most rounds have.

    Within a round both were measured on the same machine at the same time.
    """
    rates = {place: _rates(found) for place, found in windows.items()}
    reference = max(rates, key=lambda place: len(rates[place]))
    base = rates[reference]
    mean = statistics.geometric_mean(base.values())
    found = {}
    for place, own in rates.items():
        pairs = [value / base[which] for which, value in own.items() if which in base]
        whole = [value / mean for value in own.values()]
        found[place] = statistics.geometric_mean(pairs or whole)
    return found


def _is_tie(
    place: int,
    fastest: int,
    windows: Mapping[int, Sequence[Record]],
    shares: Mapping[int, float],
) -> bool:
    """Whether a place may be as fast as the fastest one."""
    share = shares[place] / shares[fastest]
    found = comparison.compare(windows[fastest], windows[place]).verdict
    if found.pairs:
        return found.outcome == FASTER or (found.outcome != SLOWER and share >= 1 - WORSE)
    return share >= 1 - WORSE


def _compared(
    option: Option,
    windows: Mapping[int, Sequence[Record]],
    chosen: int,
    place: int,
    shares: Mapping[int, float],
) -> Option:
    found = comparison.compare(windows[chosen], windows[place])
    share = shares[place] / shares[chosen]
    compared = found if found.verdict.pairs else None
    return Option(option.case, option.rate, option.worker_mib, share, compared)


def _causes(records: Sequence[Record], processes: int, question: Question) -> tuple[Cause, ...]:
    found = causes.figures(records, processes, question.cores)
    return () if found is None else tuple(causes.find(found))


def _disturbed(others: Sequence[Option], own: Sequence[Record]) -> Flag | None:
    known = [o.compared.disturbed for o in others if o.compared and o.compared.disturbed]
    return known[0] if known else comparison.disturbance(own, [])


def _worker_memory(records: Sequence[Record]) -> WorkerMemory | None:
    known = [r.application for r in records if r.application.worker_pss_mib is not None]
    if not known:
        return None
    return WorkerMemory(known[-1].worker_pss_mib, known[-1].worker_private_mib)
