"""The steps of an answer: what a request costs, the race of set-ups, the choice; and from files.

A function is called alone first. Of an application, one process of one server is measured.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from offload import files
from offload.causes import diagnosis, failures, hangs, who
from offload.engine import host, journal, load_phase, rounds
from offload.engine.application import HotLine, Started
from offload.engine.figures import LONG_OTHERS, find_disturbance
from offload.engine.plan import Plan
from offload.engine.record import LONG, WINDOW, Record, dataclass_from
from offload.errors import FAILED_REQUEST, LOAD, STALLED, RunError, StorageError, escaped
from offload.registry.catalog import is_application
from offload.studies.advise import application, costs, function, overload, result
from offload.studies.advise.answer import Answer
from offload.studies.advise.application import Application
from offload.studies.advise.choice import choose
from offload.studies.advise.evidence import Evidence, Question, Setup
from offload.studies.advise.function import Function
from offload.studies.advise.prior import Prior
from offload.studies.advise.probe import Probe
from offload.studies.advise.race import Race
from offload.suites import Case
from offload.units import counted, percent, seconds

FAST_S = 0.05  # time of a call up to which the answer takes BUDGET_S, else SLOW_BUDGET_S
BUDGET_S, SLOW_BUDGET_S = 90.0, 180.0
BRIEF_FROM_S = 1.0  # s: calls of this time or more have one round, within BRIEF_BUDGET_S
BRIEF_BUDGET_S = 54.0  # with the calls that end late 60 s
LEAST_BUDGET_S = 60.0  # budget of an answer below which no remedy is measured
PROBES = 3  # servers of an application that are tried until one starts
REPEAT = "repeat offload advise"
FIX_OR_LIMIT = "fix that first, or limit the calls in progress by connections="

Report = Callable[[str], object]


@dataclass(frozen=True)
class Saved:
    """What a run stores beside its records: the question, and what was found before the race.

    `kept` are the lines that allocate what a leak or a load keeps, found after the race.
    """

    question: Question
    probe: Probe | None = None
    kinds: tuple[str, ...] = ()
    name: str | None = None
    missing: tuple[str, ...] = ()
    started: tuple[Started, ...] = ()
    kept: tuple[HotLine, ...] = ()


def advise(
    case: Case,
    question: Question,
    folder: Path,
    report: Report,
    budget_s: float | None = None,
    on_start: Callable[[Path], object] | None = None,
    overloads: bool = False,
) -> Answer:
    """Return what to deploy for the task or application of a case; save the records in `folder`.

    `on_start` is called with the folder before the first round. With `overloads` the choice is
    loaded beyond its capacity after that. Without `budget_s` the answer takes BUDGET_S, or
    SLOW_BUDGET_S; of very slow calls BRIEF_BUDGET_S, if no rate and no p99 is required. After an
    interrupt, the answer is from the records so far; raise KeyboardInterrupt if there are none yet.
    Raise UserError if the function or the application fails, or if no set-up can meet the
    requirements.
    """
    _warn_of_others(report)
    race = Race(question, case, folder, report, time.monotonic(), overloads=overloads)
    is_interrupted = False
    try:
        if is_application(case.task):
            saved, candidates = _start_application(race, on_start)
        else:
            saved, candidates = _start_function(race, on_start)
        subject = _subject(saved, race.cases, race.records)
        race.call_s = subject.alone_s
        race.is_brief = budget_s is None and is_brief(subject.response_s, question)
        race.ends += usual_budget(subject.response_s, question) if budget_s is None else budget_s
        if (beyond := describe_excessive_rate(race.prior, candidates)) is not None:
            report(beyond)
        race.measures_switches = budget_s is None or budget_s >= LEAST_BUDGET_S
        if is_application(case.task):
            _measure_switches(race, budget_s)
        race.run(candidates)
        saved = _trace_leak(race, saved)
    except KeyboardInterrupt:
        if race.choice() is None:
            raise
        is_interrupted = True
    return answer(saved, case, race.plan, race.records, is_interrupted)


def _trace_leak(race: Race, saved: Saved) -> Saved:
    """Find the lines that keep memory, if an application leaks or keeps much."""
    found = race.choice()
    if saved.probe is not None or race.is_brief or found is None:
        return saved
    leak_mib = result.confirmed_leak_mib(race.costs, race.records)
    if leak_mib is None and not found.best.is_grown:
        return saved
    race.report(f"the lines whose memory is kept: {application.TRACED_S:.0f} s")
    probes = (each for each in race.records if application.is_probe(each) and each.result.rate)
    case = race.cases[next(probes).trial.case_index or 0]
    kept = application.trace_memory(case, leak_mib or 0.0)
    saved = replace(saved, kept=kept)
    _save(saved, race.folder)
    return saved


def is_brief(response_s: float, question: Question) -> bool:
    """Whether one round of few set-ups must do: calls are very slow, and neither is required."""
    return response_s >= BRIEF_FROM_S and question.rate is None and question.p99_s is None


def usual_budget(response_s: float, question: Question) -> float:
    """Return how long an answer takes, in s, by the time of a call."""
    if is_brief(response_s, question):
        return BRIEF_BUDGET_S
    return BUDGET_S if response_s <= FAST_S else SLOW_BUDGET_S


def _measure_switches(race: Race, budget_s: float | None) -> None:
    """Measure the remedies of one process; this is not part of the usual time of an answer."""
    if race.is_brief or not race.measures_switches:
        return
    began = time.monotonic()
    race.measure_switches([each for each in race.records if each.result.rate])
    if budget_s is None:
        race.ends += time.monotonic() - began


def _warn_of_others(report: Report) -> None:
    """Report other processes that use the machine: then the answer may be wrong."""
    now = host.measure_noise()
    named = f" ({', '.join(now.busiest)})" if now.busiest else ""
    for share, what, names in (
        (now.others_cpu, "other processes use", named),
        (now.steal, "the host takes", ""),
    ):
        if share is not None and share > LONG_OTHERS:
            words = f"{what} {percent(share)} of the machine's CPU{names}"
            report(f"warning: {words}: the answer may be wrong")


def describe_excessive_rate(prior: Prior, candidates: Sequence[Setup]) -> str | None:
    """Return what to expect if the bounds of all set-ups are below the required rate; else None."""
    rate, most = prior.question.rate, max(map(prior.capacity, candidates))
    if rate is None or rate <= most:
        return None
    limits = f"one machine carries at most {most:,.0f}/s, not {rate:,.10g}/s"
    if prior.limit(max(candidates, key=prior.capacity)) == "shared":
        return f"{limits}: several processes wait for each other, on other machines as well"
    return f"{limits}: the answer will be how many machines are needed"


def _start_function(
    race: Race, on_start: Callable[[Path], object] | None
) -> tuple[Saved, list[Setup]]:
    race.report("calls of the function alone and in workers: up to 10 s")
    found = function.measure(race.case, race.question)
    _check_response_time(race.question, found)
    race.costs = found.costs
    race.variables = function.ONE_THREAD if found.has_own_threads else None
    installed, missing = function.servers()
    candidates = race.prior.candidates(installed)
    if not candidates:
        raise _no_candidate(race.prior, race.case, installed)
    saved = Saved(race.question, found.probe, missing=tuple(missing))
    _save(saved, race.folder)
    if on_start is not None:
        on_start(race.folder)
    return saved, candidates


def _start_application(
    race: Race, on_start: Callable[[Path], object] | None
) -> tuple[Saved, list[Setup]]:
    imported = application.find(race.case)
    servers = application.servers(imported.kinds, race.case.python)
    kinds, started = imported.kinds, imported.started
    saved = Saved(race.question, kinds=kinds, name=imported.name, started=started)
    _save(saved, race.folder)
    if on_start is not None:
        on_start(race.folder)
    found = _probe_application(race, saved, servers)
    for sentence in found.seen():
        race.report(f"one process alone: {sentence}")
    _check_response_time(race.question, found)
    race.costs = found.costs
    candidates = race.prior.candidates_of_each(servers)
    if not candidates:
        raise _no_candidate(race.prior, race.case, servers)
    return saved, candidates


def _probe_application(race: Race, saved: Saved, servers: Sequence[str]) -> Application:
    """Measure one process of the first server that starts; raise RunError without a rate."""
    problem = None
    for name in servers[:PROBES]:
        users = race.question.users or costs.PROBE_USERS
        setup = application.probe_setup(name, users)
        race.report(f"one process of {name} alone")
        record, *few = race.measure_alone(setup, users)
        if record.problem is None and record.result.rate and not _fails(record):
            return _application(saved, race.cases, race.records)
        if few and few[0].result.rate:
            if _has_known_failure(record):
                raise _failed(record)
            fails = any(map(diagnosis.is_failure, diagnosis.diagnose(few)))
            if fails or rounds.collapses(record) or race.question.users is not None:
                raise _too_slow(record, few[0])
            return _application(saved, race.cases, race.records)
        if record.problem is None or record.problem.kind in (LOAD, STALLED, FAILED_REQUEST):
            raise _failed(record)  # another server would get the same response
        problem = problem or record.problem
    assert problem is not None
    raise RunError(problem.message, problem.remedy)


def _application(saved: Saved, cases: Sequence[Case], records: Sequence[Record]) -> Application:
    return application.describe(saved.kinds, saved.name, saved.started, cases, records)


def _has_known_failure(record: Record) -> bool:
    """Whether requests had responses of 500 or above, and it is known why: few users hide that."""
    known = {cause.kind for cause in diagnosis.diagnose([record]) if diagnosis.is_failure(cause)}
    return bool(record.result.failed.get("5xx")) and bool(known - {failures.NO_PROGRESS})


def _fails(record: Record) -> bool:
    return record.result.failed_share > hangs.LOAD_FAILS


def _failed(record: Record) -> RunError:
    """Return what was seen in a load that failed, with its causes and what to do."""
    problem = record.problem
    if problem is not None:
        # The message of a single request that failed has its exception.
        error = "" if problem.kind == FAILED_REQUEST else _last_error([record])
        return _explained(problem.message, error, _remedy_of(record), [record])
    failed, done = record.result.failures or 0, record.result.completed or 0
    what = f"{failed} of {failed + done} requests failed under {record.case.users} users"
    what += f" ({load_phase.failures_text(record.result)})"
    return _explained(what, _last_error([record]), _remedy_of(record), [record])


def _remedy_of(record: Record) -> str:
    """Return what to do about the exception of a load that failed, or else about its problem."""
    known = failures.remedy_of_error(record.application.failing.error)
    return known or (record.problem and record.problem.remedy) or FIX_OR_LIMIT


def _last_error(records: Sequence[Record]) -> str:
    """Return the last exception that made a request fail, in parentheses; empty without one."""
    errors = (each.application.failing.error for each in reversed(records))
    return next((f" ({error})" for error in errors if error), "")


def _explained(what: str, error: str, remedy: str, records: Sequence[Record]) -> RunError:
    """Return an error with the cause that the newest record shows for failed requests.

    `error` is the exception that made them fail; it is not said twice.
    """
    for record in reversed(records):
        for cause in filter(diagnosis.is_failure, diagnosis.diagnose([record])):
            facts = cause.facts
            has_error = isinstance(facts, failures.FailingSince) and facts.error is not None
            why = diagnosis.clause(cause, record.case.users)
            said = f"{what}: {why}" if has_error else f"{what}{error}: {why}"
            return RunError(said, diagnosis.remedy(cause) or remedy)
    return RunError(f"{what}{error}", remedy)


def _too_slow(stalled: Record, few: Record) -> RunError:
    """Return what was seen of requests that are too slow for the users, and why."""
    alone_s, users = stalled.baseline.alone_s or 0.0, few.case.users
    causes = [cause for cause in diagnosis.diagnose([few]) if cause.kind != diagnosis.NOTHING]
    what = (
        f"a request takes {seconds(alone_s)} alone, and {stalled.case.users} users had "
        f"{stalled.result.completed or 'no'} responses before the load stopped: "
        f"{counted(users, 'user')} had {few.result.rate or 0.0:.3g}/s"
    )
    why = " ".join(diagnosis.sentence(cause, users) for cause in causes)
    if not why and few.who is not None and few.who.lines:
        why = who.clause(few.who.lines[0])
    fewer = f"make it faster, or ask for fewer users (users={users})"
    return RunError(f"{what}. {why.removesuffix('.')}" if why else what, fewer)


def answer(
    saved: Saved,
    case: Case,
    plan: Plan,
    records: Sequence[Record],
    is_interrupted: bool = False,
) -> Answer:
    """Return the answer that records show; raise RunError if no set-up worked."""
    subject = _subject(saved, plan.cases, records)
    brief = is_brief(subject.response_s, saved.question)
    found = result.evidence(plan.cases, records, subject.costs, brief)
    choice = choose(saved.question, found, subject.costs.blocks_s)
    if choice is None:
        problem = next((each.problem for each in found if each.problem), "there are no records")
        last = _last_error(records)
        if saved.probe is not None and saved.probe.error and any(each.failed for each in found):
            last = f" ({escaped(saved.probe.error)})"
        raise _explained(f"no set-up worked: {problem}", last, FIX_OR_LIMIT, records)
    if isinstance(subject, Application):
        subject = application.add_setup(subject, choice.best.setup, plan.cases, records)
        subject = application.add_shared(subject, found)
    windows = [each for each in records if each.trial.kind == WINDOW]
    disturbed = find_disturbance(windows, ())
    leak_mib = result.confirmed_leak_mib(subject.costs, records)
    if isinstance(subject, Application):
        subject = replace(subject, costs=replace(subject.costs, leak_mib=leak_mib))
    prior = Prior(replace(subject.costs, leak_mib=leak_mib), saved.question)
    return Answer(
        prior,
        case,
        subject,
        choice,
        saved.missing,
        disturbed,
        is_interrupted,
        tuple(overload.read_overloads(choice.best.setup, plan.cases, records)),
        _start_s(choice.best.setup, plan.cases, records),
        result.keep_alive(choice.best.setup, plan.cases, records),
        result.preloads(choice.best.setup, plan.cases, records),
        _kept_lines(saved, leak_mib, choice.best),
    )


def _kept_lines(saved: Saved, leak_mib: float | None, best: Evidence) -> tuple[HotLine, ...]:
    """Return the lines that allocate what stays, if the records show that much stays."""
    kept = saved.kept if saved.probe is None else saved.probe.kept
    return kept if leak_mib or (saved.probe is None and best.is_grown) else ()


def _start_s(setup: Setup, cases: Sequence[Case], records: Sequence[Record]) -> float | None:
    """Return how long a set-up takes to start alone; the median."""
    own = {index for index, each in enumerate(cases) if result.setup_of(each) == setup}
    longs = [each for each in records if each.trial.kind == LONG and each.trial.case_index in own]
    found = [start_s for each in longs if (start_s := each.trial.phases.get("start")) is not None]
    return statistics.median(found) if found else None


def load(folder: Path, plan: Plan, records: Sequence[Record]) -> Answer:
    """Return the answer of a saved run; raise StorageError if its files are damaged."""
    path = folder / journal.QUESTION
    try:
        saved = dataclass_from(Saved, files.parse_json(files.read(path)))
    except FileNotFoundError:
        what = f"{folder.name} is an advice of an older version"
        raise StorageError(what, REPEAT) from None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", REPEAT) from error
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise StorageError(f"{path} is not readable by this version: {error}", REPEAT) from error
    return answer(saved, plan.cases[0], plan, records)


def _save(saved: Saved, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    journal.replace(folder / journal.QUESTION, f"{json.dumps(asdict(saved), indent=1)}\n")


def _subject(
    saved: Saved, cases: Sequence[Case], records: Sequence[Record]
) -> Function | Application:
    if saved.probe is not None:
        gain = result.variables_gain(function.ONE_THREAD, cases, records)
        found = [each for each in records if each.who is not None]
        if not found:
            return Function(saved.probe, gain=gain)
        setup = result.setup_of(cases[found[-1].trial.case_index or 0])
        return Function(saved.probe, found[-1].who, setup.name, gain)
    if not any(application.is_probe(each) and each.result.rate for each in records):
        raise RunError("the application was not measured", REPEAT)
    return _application(saved, cases, records)


def _check_response_time(question: Question, subject: Function | Application) -> None:
    """Raise RunError if a single request takes longer than the required p99."""
    limit_s, alone_s = question.p99_s, subject.alone_s
    if limit_s is None or alone_s <= limit_s:
        return
    what = f"no set-up reaches a p99 of {seconds(limit_s)}: a call alone takes {seconds(alone_s)}"
    raise RunError(what, "make it faster, or increase p99=")


def _no_candidate(prior: Prior, case: Case, servers: Sequence[str]) -> RunError:
    """Return why no set-up is possible: the requirement without which there is one."""
    question = prior.question
    unlimited = replace(
        prior,
        question=replace(question, memory_mib=None),
        costs=replace(prior.costs, limit_mib=None),
    )
    if prior.limit_mib is not None and (found := unlimited.candidates(servers)):
        smallest = [replace(e, processes=1, workers=e.workers and 1) for e in found]
        least = min(smallest, key=prior.memory_mib)
        needs = f"{least.name} needs {prior.memory_mib(least):.0f} MiB"
        what = f"no set-up fits into {prior.limit_mib:.0f} MiB: {needs}"
        fix = (
            "use a machine with more memory" if question.memory_mib is None else "increase memory="
        )
        return RunError(what, fix)
    without = replace(prior, question=replace(question, isolate=False))
    if question.isolate and without.candidates(servers):
        return RunError(f"no server here isolates the calls of {case.task}", "leave out isolate=")
    what = f"{case.task} fails in every set-up if several calls run at once"
    return RunError(what, FIX_OR_LIMIT)
