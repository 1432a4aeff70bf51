"""The command check_advice: whether another set-up dominates the advised one."""

from __future__ import annotations

import random

from lab import corpus
from lab.commands import command
from offload.cli import program
from offload.errors import GateError, UsageError
from offload.options import arguments
from offload.registry import catalog


@command
def check_advice(functions: str = "", seed: str = "", count: str = "10", repeat: str = "1") -> None:
    """Check that nothing dominates the advised set-ups, in 5 minutes for each function.

    functions  names separated by +, such as shop.py:quote; default: some of the corpus
    seed       a whole number that selects functions of the corpus; default: a new one, printed
    count      how many; default: 10
    repeat     number of answers on each function, to check that they agree; default: 1

    One round of all set-ups leaves out those that are far slower or larger. The advised set-up and
    each of the others are measured in a block of the two alone.
    """
    from lab import advice
    from offload.documents.text import TableLine, render_table
    from offload.studies.advise.evidence import Question

    times = arguments.whole_number("repeat", repeat, 1, 20)
    names = functions.split("+") if functions else _drawn(seed, count)
    cases = [advice.case_of(catalog.find_task(name).name) for name in names]
    head = ("Function", "Advised", "Told", "Took", "Rivals", "Dominated by")
    found = []
    for case in cases:
        program.print_progress(f"{case.task}: an answer, then up to 13 rivals")
        found.append(each := advice.judge(case, Question(), times, program.print_progress))
        verdict = each.problem or each.dominated or f"not dominated by {each.rivals}"
        took = f"told {each.told_s:.0f} s, took {each.took_s:.0f} s"
        program.print_progress(f"{each.task}: {', '.join(each.answers)}; {took}; {verdict}")
    rows = [
        TableLine(
            (
                each.task,
                ", ".join(each.answers),
                f"{each.told_s:.0f} s",
                f"{each.took_s:.0f} s",
                f"{each.rivals}",
                each.problem or "; ".join(f"{n}: {w}" for n, w in each.dominated.items()) or "none",
            )
        )
        for each in found
    ]
    print(render_table(head, rows))
    if any(each.dominated or each.problem for each in found):
        raise GateError("an advised set-up is dominated, or there is no answer")


def _drawn(seed: str, count: str) -> list[str]:
    """Return functions of the corpus, drawn by a printed seed."""
    most = len(corpus.FUNCTIONS)
    number = arguments.whole_number("count", count, 1, most)
    if seed and not seed.isdecimal():
        raise UsageError(f"seed={seed[:100]!r} is not a whole number")
    chosen = int(seed) if seed else random.SystemRandom().randrange(10**6)
    print(f"seed={chosen}", flush=True)
    drawn = random.Random(chosen).sample(corpus.FUNCTIONS, number)  # noqa: S311 - no secret
    return [corpus.task_name(each) for each in drawn]
