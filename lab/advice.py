"""Judge an answer of advise: whether another set-up dominates it, and its cause is correct.

Each rival is measured in a block of the two alone, so that both see the same minutes. The verdict
is by whole 95 % intervals. A rival that cannot dominate any more is left early.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from offload.engine import journal
from offload.engine.server import hold_for
from offload.errors import UserError
from offload.loads import Arrivals
from offload.registry import catalog
from offload.studies.advise import application, study
from offload.studies.advise.answer import Answer
from offload.studies.advise.application import Application
from offload.studies.advise.choice import HALF, NO_WORSE
from offload.studies.advise.evidence import (
    CERTAIN,
    LOOPS,
    MEMORY,
    POOL,
    THREADS,
    Evidence,
    Question,
    Setup,
    kind_of,
)
from offload.studies.advise.race import LOAD_S, PASSES, Race
from offload.suites import Case

GRID = (
    Setup("loop", LOOPS),
    *(Setup("prefork", LOOPS, count) for count in (2, 4, 25)),
    *(Setup("threads", THREADS, p, t) for p, t in ((1, 8), (1, 32), (2, 8), (2, 32), (4, 16))),
    *(Setup(pool, POOL, 1, count) for pool in ("processes", "pipes") for count in (2, 8)),
    *(Setup("gunicorn_gthread", THREADS, 2, count) for count in (8, 32)),
)
SIZES = {  # processes, and threads in each, of the servers of an application
    LOOPS: ((1, None), (2, None), (4, None)),
    THREADS: ((1, 8), (1, 32), (2, 8), (2, 32), (4, 16)),
}
ROUNDS, FEWEST = 7, 3
SLOWER, LARGER = 0.6, 1.25  # ratios in one round of all set-ups, beyond which none can dominate
LOAD = 0.8  # of the smaller capacity, at which response times are compared


@dataclass
class Judgement:
    """What was found about one function or application.

    `answers` are the advised set-ups; `expected_s` and `took_s` are the times of the first answer.
    `causes` are the kinds of the causes that were named for an application, and `seeded` is the
    correct first one; None for a function.
    `dominated` has the reason by the name of each set-up that dominates the first answer.
    """

    task: str
    answers: list[str] = field(default_factory=list)
    expected_s: float = 0.0
    took_s: float = 0.0
    causes: list[str] = field(default_factory=list)
    seeded: str | None = None
    rivals: int = 0
    dominated: dict[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def has_wrong_cause(self) -> bool:
        """Whether the first cause that was named is not the seeded one."""
        return self.seeded is not None and self.causes[:1] != [self.seeded]

    @property
    def failures(self) -> list[str]:
        """What is wrong with the advice; empty if it is good."""
        if self.problem is not None:
            return [self.problem]
        named = ", ".join(self.causes) or "no cause"
        wrong = [f"the cause is {self.seeded}, not {named}"] if self.has_wrong_cause else []
        return [*wrong, *(f"dominated by {name}: {why}" for name, why in self.dominated.items())]


def judge(
    case: Case,
    question: Question,
    repeat: int,
    report: Callable[[str], object],
    seeded: str | None = None,
) -> Judgement:
    """Advise `repeat` times on the work of a case, and measure the first answer's rivals."""
    found = Judgement(case.task, seeded=seeded)
    try:
        first: Answer | None = None
        for _ in range(repeat):
            began = time.monotonic()
            answer = study.advise(case, question, journal.new_run("advise"), report)
            found.answers.append(answer.best.setup.name)
            if first is None:
                first, found.took_s = answer, time.monotonic() - began
                found.expected_s = study.usual_budget(answer.subject.response_s, question)
                if isinstance(answer.subject, Application):
                    found.causes = [cause.kind for cause in answer.subject.causes]
        assert first is not None
        for rival, why in dominating(first, case, report):
            found.rivals += 1
            if why:
                found.dominated[rival.name] = why
    except UserError as error:
        found.problem = str(error)
    return found


def dominating(
    answer: Answer, case: Case, report: Callable[[str], object]
) -> Iterator[tuple[Setup, str]]:
    """Yield each rival that is possible, and why it dominates the advised set-up; or nothing."""
    folder = journal.new_run("advise")
    folder.mkdir(parents=True, exist_ok=True)
    race = Race(answer.question, case, folder, report, math.inf, answer.prior.costs)
    best = answer.best.setup
    grid = _grid(answer.subject, case) if isinstance(answer.subject, Application) else GRID
    rivals = [each for each in grid if each != best and answer.prior.is_possible(each)]
    if "blocks its event loop" in answer.choice.left_out.values():
        rivals = [each for each in rivals if each.kind != LOOPS]  # the rule keeps loops free
    with hold_for(case) as upstream:
        race.measure(1, [best, *rivals], upstream)
        alike = [each for each in rivals if _is_alike(*_pair(race, best, each))]
        yield from ((each, "") for each in rivals if each not in alike)
        for index, rival in enumerate(alike):
            race = Race(answer.question, case, folder, report, math.inf, answer.prior.costs)
            for number in range(1, ROUNDS + 1):
                race.measure(100 * (index + 1) + number, [best, rival], upstream)
                own, other = _pair(race, best, rival)
                if number >= FEWEST and not _may_dominate(other, own):
                    break
            why = _dominates(other, own)
            if not why and _is_no_worse(other, own):
                rate = LOAD * min(own.capacity or 0.0, other.capacity or 0.0)
                arrivals = [Arrivals(rate, "poisson")] * PASSES
                race.load([best, rival], arrivals, LOAD_S, upstream)
                own, other = _pair(race, best, rival)
                if own.p99 and other.p99 and other.p99.high <= HALF * own.p99.low:
                    why = f"p99 {other.p99.value:.3g} s, and {own.p99.value:.3g} s"
            yield rival, why


def _grid(subject: Application, case: Case) -> list[Setup]:
    """Return the servers of an application in each of the usual sizes."""
    found = []
    for name in application.servers(subject.kinds, case.python):
        entry = catalog.find_server(name)
        kind = kind_of(entry)
        is_single = "processes" not in entry.settings and entry.workers_are != "processes"
        has_one = entry.workers_are == "processes"  # call at a time in each
        for processes, threads in SIZES.get(kind, ()):
            if (is_single and processes > 1) or (has_one and threads not in (8, None)):
                continue
            found.append(Setup(name, kind, processes, 1 if has_one and threads else threads))
    return found


def _pair(race: Race, best: Setup, rival: Setup) -> tuple[Evidence, Evidence]:
    found = {each.setup: each for each in race.evidence()}
    return found[best], found[rival]


def _is_alike(own: Evidence, other: Evidence) -> bool:
    """Whether one round leaves open that `other` dominates `own`."""
    slower = (other.capacity or 0.0) < SLOWER * (own.capacity or 0.0)
    return not slower and _memory_ratio(other, own) <= LARGER


def _dominates(one: Evidence, other: Evidence) -> str:
    """Return why `one` dominates `other` in capacity or memory, by the whole interval."""
    ratio = one.ratio(other)
    if ratio is None:
        return ""
    words = f"{ratio[0]:.2f}x ({ratio[1]:.2f} to {ratio[2]:.2f})"
    if ratio[1] > CERTAIN and _has_no_more_memory(one, other):
        return words
    if ratio[1] >= NO_WORSE and _memory_ratio(one, other) <= HALF:
        return f"{words} in {_memory_ratio(one, other):.2f} of the memory"
    return ""


def _is_no_worse(one: Evidence, other: Evidence) -> bool:
    ratio = one.ratio(other)
    return ratio is not None and ratio[1] >= NO_WORSE and _has_no_more_memory(one, other)


def _may_dominate(one: Evidence, other: Evidence) -> bool:
    """Whether more rounds may show that `one` dominates `other`."""
    ratio = one.ratio(other)
    return ratio is not None and ratio[2] >= NO_WORSE and _has_no_more_memory(one, other)


def _has_no_more_memory(one: Evidence, other: Evidence) -> bool:
    return _memory_ratio(one, other) <= MEMORY


def _memory_ratio(one: Evidence, other: Evidence) -> float:
    """Return the ratio of the memory of two set-ups; 1 if one of them is unknown."""
    if one.memory_mib is None or other.memory_mib is None:
        return 1.0
    return one.memory_mib / other.memory_mib


def case_of(task: str, path: Path | None = None) -> Case:
    """Return the case of a function; its server is arbitrary."""
    return Case("threads", task, path=None if path is None else str(path))
