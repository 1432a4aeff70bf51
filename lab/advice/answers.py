"""Advise on each function of a set, and save every answer."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lab.advice.recorded_answer import RecordedAnswer, RecordedRatio
from lab.advice.truth import short_name
from offload.bench.advice import steps
from offload.bench.advice.answer import Answer
from offload.bench.advice.steps import Report
from offload.bench.records import json_lines
from offload.errors import MachineError, StorageError, UserError
from offload.suites import Case

FILE = "answers.jsonl"


def complete_answers(
    tasks: Sequence[str],
    folder: Path,
    users: int,
    budget_s: float,
    report: Report,
    repeat: int = 1,
) -> Iterator[RecordedAnswer]:
    """Yield `repeat` answers on each task, those saved in `folder` first.

    A failure of a function is reported and skipped; raise StorageError and MachineError. After an
    interrupt, all complete answers are saved. The records of an incomplete answer are removed
    before it is repeated: its candidates may have been others, and their windows would count
    for the new candidates at the same places of the plan.
    """
    known = read(folder)
    yield from known
    done = {(each.task, each.number) for each in known}
    for number, task in itertools.product(range(1, repeat + 1), tasks):
        if (task, number) in done:
            continue
        report(f"advice on {task}" + (f", answer {number}" if number > 1 else ""))
        started = time.monotonic()
        case, own = Case("threads", task, users=users), own_folder(folder, task, number)
        try:
            _remove(own)
            found = steps.advise(case, own, budget_s, report)
        except (StorageError, MachineError):
            raise
        except UserError as error:
            report(f"{task}: {error}")
            continue
        if found.is_interrupted:
            raise KeyboardInterrupt
        answer = replace(_record(task, found, time.monotonic() - started), number=number)
        append(folder, answer)
        yield answer


def own_folder(folder: Path, task: str, number: int = 1) -> Path:
    """Return the folder with the records of an answer on one task."""
    name = short_name(task).replace(":", "-")
    return folder / "answers" / (name if number == 1 else f"{name}-{number}")


def _remove(folder: Path) -> None:
    """Remove a folder if it exists; raise StorageError."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "remove it") from error


def read(folder: Path) -> list[RecordedAnswer]:
    """Read the saved answers; raise StorageError if the file is damaged."""
    return json_lines.load(folder / FILE, RecordedAnswer, "answer")


def _record(task: str, found: Answer, seconds: float) -> RecordedAnswer:
    """Return the record of an answer, which took `seconds`."""
    chosen = found.chosen
    ratios = []
    for each in found.others:
        verdict = each.compared.verdict if each.compared else None
        if verdict and verdict.ratio is not None and verdict.sd is not None:
            ratios.append(
                RecordedRatio(each.strategy, each.workers, verdict.ratio, verdict.sd, verdict.pairs)
            )
    return RecordedAnswer(
        task,
        chosen.strategy,
        chosen.workers,
        chosen.rate.value,
        chosen.prediction.rate,
        found.sure,
        round(seconds, 1),
        tuple(each.value for each in found.chosen.percentiles),
        tuple(ratios),
    )


def append(folder: Path, answer: RecordedAnswer) -> None:
    """Save an answer; raise StorageError."""
    json_lines.append(folder / FILE, answer)
