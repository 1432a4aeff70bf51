"""The command check_advice: whether set-ups dominate the advised ones, and causes are correct."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from lab import corpus
from lab.commands import command
from offload.cli import program
from offload.errors import GateError, UsageError
from offload.options import arguments
from offload.registry import catalog
from offload.suites import Case, Request
from tests.applications.seeded import ADVISED, FOLDER, Seeded

Drawn = TypeVar("Drawn")


@command
def check_advice(
    functions: str = "",
    applications: str = "",
    seed: str = "",
    count: str = "10",
    repeat: str = "1",
) -> None:
    """Check the advised set-ups and the named causes, in 5 minutes for each function.

    functions     names separated by +, such as shop.py:quote; default: some of the corpus
    applications  yes: applications with a seeded cause, which must be named first
    seed          a whole number that selects some; default: a new one, printed
    count         how many; default: 10
    repeat        number of answers on each, to check that they agree; default: 1

    One round of all set-ups leaves out those that are far slower or larger. The advised set-up and
    each of the others are measured in a block of the two alone. The exit code is 1 if a set-up
    dominates an advised one, if a wrong cause is named, or if there is no answer.
    """
    from lab import advice
    from offload.documents.text import TableLine, render_table
    from offload.studies.advise.evidence import Question

    times = arguments.whole_number("repeat", repeat, 1, 20)
    if applications == "yes":
        drawn = _draw(_applications(), seed, count)
        cases = [
            replace(
                Case("threads", f"app={each.app}", users=each.users, path=str(FOLDER)),
                request=Request(each.request),
            )
            for each in drawn
        ]
        seeded = {f"app={each.app}": each.cause for each in drawn}
    else:
        names = functions.split("+") if functions else _draw(corpus.FUNCTIONS, seed, count)
        tasks = [each if functions else corpus.task_name(each) for each in names]
        cases = [advice.case_of(catalog.find_task(name).name) for name in tasks]
        seeded = {}
    head = ("Work", "Advised", "Expected", "Took", "Causes", "Rivals", "Failures")
    found = []
    for case in cases:
        program.print_progress(f"{case.task}: an answer, then up to 13 rivals")
        cause = seeded.get(case.task)
        question = Question(users=None if cause is None else case.users)
        found.append(each := advice.judge(case, question, times, program.print_progress, cause))
        verdict = "; ".join(each.failures) or f"not dominated by {each.rivals}"
        took = f"expected {each.expected_s:.0f} s, took {each.took_s:.0f} s"
        program.print_progress(f"{each.task}: {', '.join(each.answers)}; {took}; {verdict}")
    rows = [
        TableLine(
            (
                each.task,
                ", ".join(each.answers),
                f"{each.expected_s:.0f} s",
                f"{each.took_s:.0f} s",
                ", ".join(each.causes),
                f"{each.rivals}",
                "; ".join(each.failures) or "none",
            )
        )
        for each in found
    ]
    print(render_table(head, rows))
    if any(each.failures for each in found):
        raise GateError("an advised set-up is dominated, a cause is wrong, or there is no answer")


def _applications() -> list[Seeded]:
    """Return the seeded applications that can run here."""
    return [
        each
        for each in ADVISED
        if each.python is None and all(importlib.util.find_spec(name) for name in each.packages)
    ]


def _draw(every: Sequence[Drawn], seed: str, count: str) -> list[Drawn]:
    """Return some, drawn by a printed seed."""
    number = arguments.whole_number("count", count, 1, len(every))
    if seed and not seed.isdecimal():
        raise UsageError(f"seed={seed[:100]!r} is not a whole number")
    chosen = int(seed) if seed else random.SystemRandom().randrange(10**6)
    print(f"seed={chosen}", flush=True)
    return random.Random(chosen).sample(every, number)  # noqa: S311 - no secret
