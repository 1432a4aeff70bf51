"""What to do next after an answer, as commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from offload.bench.advice import certainty
from offload.bench.advice.answer import Answer
from offload.bench.advice.certainty import LIKELY, PREDICTED, TIE
from offload.bench.advice.question_file import Question
from offload.registry import places
from offload.suites import Case


def sentences(answer: Answer) -> Iterator[str]:
    """Yield the next step, and an alternative if there is one."""
    task = places.display_name(answer.question.probe.task)
    options, python = _options(answer), answer.chosen.case.python
    own = [f"python={python}"] if python else []
    advise = _command("advise", task, *options, *own, *constraint_options(answer.question))
    if answer.disturbed is not None:
        yield as_sentence(answer.disturbed.remedy)
    elif answer.failures and not answer.is_measured:
        yield f"Find out why the servers failed, and repeat: {advise}"
    elif answer.sure == PREDICTED:
        yield f"Measure it: {advise}"
    else:
        yield f"Serve it: {_command(*answer.chosen.case.words)}"
    if answer.sure in (LIKELY, TIE) and (rivals := answer.rivals):
        rival = next((each for each in rivals if certainty.is_open(each.compared)), rivals[0])
        pair = answer.chosen.case.name, rival.case.name
        yield f"Measure longer: {_command('compare', *pair, *options)}"


def as_sentence(remedy: str) -> str:
    """Return a remedy as a sentence."""
    return f"{remedy[0].upper()}{remedy[1:]}."


def _options(answer: Answer) -> list[str]:
    """Return the options of the question that commands need to measure the same."""
    case, users = answer.chosen.case, answer.question.users
    found = [] if users == Case.users else [f"users={users}"]
    return [*found, *([f"path={case.path}"] if case.path else [])]


def constraint_options(question: Question) -> list[str]:
    """Return the limits of a question, as options of advise."""
    found = [] if question.cpus is None else [f"cpus={question.cpus}"]
    found += [] if question.memory_mib is None else [f"memory={question.memory_mib:.10g}M"]
    return found + ([] if question.p99_s is None else [f"p99={1000 * question.p99_s:.10g}ms"])


def _command(*words: str) -> str:
    """Return a command, quoted for a shell."""
    return shlex.join(["offload", *words])
