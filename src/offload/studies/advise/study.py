"""The steps of an answer: probe the function, race the set-ups, choose; and from a run's files."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from offload.bench.advice import constraints
from offload.bench.advice.inputs import probe_measurement
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.inputs.probe_measurement import InterruptedProbe
from offload.bench.advice.question_file import read
from offload.bench.analysis import disturbance
from offload.bench.planning.plan import Plan
from offload.bench.records import journal, lines
from offload.bench.records.record import WINDOW, Record
from offload.bench.target.needed_upstream import hold_for
from offload.documents import QUESTION
from offload.errors import RunError
from offload.registry import catalog
from offload.studies.advise.answer import Answer
from offload.studies.advise.choice import Question, choose
from offload.studies.advise.evidence import LOOPS, Setup
from offload.studies.advise.prior import Prior
from offload.studies.advise.race import Race
from offload.studies.advise.result import evidence
from offload.suites import Case

SERVERS = ("loop", "prefork", "threads", "gunicorn_gthread", "processes", "pipes")
PROBE_USERS = 64  # calls at once of a coroutine in the probe, without users=
FAST_S = 0.05  # time of a call up to which the answer takes BUDGET_S, else SLOW_BUDGET_S
BUDGET_S, SLOW_BUDGET_S = 90.0, 180.0

Report = Callable[[str], object]


def advise(
    case: Case,
    question: Question,
    folder: Path,
    report: Report,
    budget_s: float | None = None,
    on_start: Callable[[Path], object] | None = None,
) -> Answer:
    """Return what to deploy for the task of a case; save the records in `folder`.

    `on_start` is called with the folder before the first round. Without `budget_s` the answer takes
    BUDGET_S or SLOW_BUDGET_S. After an interrupt, the answer is from the records so far; raise
    KeyboardInterrupt if there are none yet. Raise UserError if the task fails, or if no set-up can
    meet the requirements.
    """
    started = time.monotonic()
    report("calls of the function alone and in workers: 10 s")
    probe = _probe(case, question)
    took_s = probe.call.wall_s
    constraints.check_response_time(question.p99_s, took_s, "set-up", "the function alone")
    prior = Prior(probe, question)
    installed, missing = _servers()
    candidates = prior.candidates(installed)
    if not candidates:
        raise _no_candidate(prior)
    if budget_s is None:
        budget_s = BUDGET_S if took_s <= FAST_S else SLOW_BUDGET_S
    ends = started + budget_s
    names = ", ".join(each.name for each in candidates)
    report(f"the answer takes about {ends - time.monotonic():.0f} s more: {names}")
    folder.mkdir(parents=True, exist_ok=True)
    _save(question, probe, missing, folder)
    race = Race(question, prior, case, folder, report, ends)
    is_interrupted = False
    try:
        if on_start is not None:
            on_start(folder)
        race.run(candidates)
    except KeyboardInterrupt:
        if race.choice() is None:
            raise
        is_interrupted = True
    return answer(prior, case, race.plan, race.records, missing, is_interrupted)


def answer(
    prior: Prior,
    case: Case,
    plan: Plan,
    records: Sequence[Record],
    missing: Sequence[str] = (),
    is_interrupted: bool = False,
) -> Answer:
    """Return the answer that records show; raise RunError if no set-up worked."""
    found = evidence(plan.cases, records, bool(prior.probe.process.leak_mib))
    choice = choose(prior.question, found, prior.probe.on_loop_s)
    if choice is None:
        problem = next((each.problem for each in found if each.problem), "there are no records")
        raise RunError(f"no set-up worked: {problem}", "fix the function first")
    windows = [each for each in records if each.trial.kind == WINDOW]
    disturbed = disturbance.between(windows, ())
    return Answer(prior.question, prior, case, choice, tuple(missing), disturbed, is_interrupted)


def load(folder: Path, plan: Plan, records: Sequence[Record]) -> Answer:
    """Return the answer of a saved run; raise StorageError if its files are damaged."""
    question, probe, missing = read(folder, _built, QUESTION)
    return answer(Prior(probe, question), plan.cases[0], plan, records, missing)


def is_of_this_version(folder: Path) -> bool:
    """Whether a run was saved by this study."""
    return (folder / QUESTION).exists()


def _save(question: Question, probe: Probe, missing: Sequence[str], folder: Path) -> None:
    values = {"question": asdict(question), "probe": asdict(probe), "missing": [*missing]}
    journal.replace(folder / QUESTION, f"{json.dumps(values, indent=1)}\n")


def _built(values: Any) -> tuple[Question, Probe, tuple[str, ...]]:
    return (
        lines.built(Question, values["question"], "question"),
        lines.built(Probe, values["probe"], "probe"),
        tuple(map(str, values["missing"])),
    )


def _probe(case: Case, question: Question) -> Probe:
    with hold_for(case) as upstream:
        try:
            return probe_measurement.measure(case, upstream, question.users or PROBE_USERS)
        except InterruptedProbe:
            raise KeyboardInterrupt from None


def _servers() -> tuple[list[str], list[str]]:
    """Return the servers that are installed, and those that are not."""
    installed: list[str] = []
    missing: list[str] = []
    for name in SERVERS:
        needs = catalog.find_server(name).needs
        is_installed = all(importlib.util.find_spec(each) is not None for each in needs)
        (installed if is_installed else missing).append(name)
    return installed, missing


def _no_candidate(prior: Prior) -> RunError:
    """Return why no set-up is possible."""
    limit_mib = prior.question.memory_mib
    smallest = prior.memory_mib(Setup("loop", LOOPS))
    if limit_mib is not None and smallest > limit_mib:
        return constraints.too_little_memory(limit_mib, "set-up", "one process", smallest)
    what = f"{prior.probe.task} fails in every set-up if several calls run at once"
    return RunError(what, "fix the function first")
