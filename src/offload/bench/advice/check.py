"""Check the advice: ask for it on each function of a set, and keep every answer on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from offload.bench.advice import ask
from offload.bench.advice.answer import Answer
from offload.bench.advice.ask import Report
from offload.bench.advice.judgement import GivenAnswer
from offload.bench.records import lines
from offload.errors import StorageError, UserError
from offload.suites import Case

FILE = "answers.jsonl"


def give_missing(
    tasks: Sequence[str], folder: Path, users: int, budget_s: float, report: Report
) -> Iterator[GivenAnswer]:
    """Yield an answer on each task, those from `folder` first; a failure is reported and left out.

    An interrupt keeps the answers until then.
    """
    known = {each.task: each for each in read(folder)}
    yield from known.values()
    for task in tasks:
        if task in known:
            continue
        report(f"advice on {task}")
        started = time.monotonic()
        case = Case("threads", task, users=users)
        try:
            found = ask.advise(case, own_folder(folder, task), budget_s, report)
        except UserError as error:
            report(f"{task}: {error}")
            continue
        if found.is_interrupted:
            raise KeyboardInterrupt
        given = _given(task, found, time.monotonic() - started)
        append(folder, given)
        yield given


def own_folder(folder: Path, task: str) -> Path:
    """Return the folder with the records of the answer on one task."""
    return folder / "answers" / task.rpartition(".")[2].replace(":", "-")


def read(folder: Path) -> list[GivenAnswer]:
    """Read the answers that are kept; raise StorageError if the file is damaged."""
    path = folder / FILE
    try:
        text = path.read_text()
        return [lines.built(GivenAnswer, json.loads(line), "answer") for line in text.splitlines()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(f"{path} cannot be read: {error}", "remove its damaged line") from error


def _given(task: str, found: Answer, seconds: float) -> GivenAnswer:
    chosen = found.chosen
    return GivenAnswer(
        task,
        chosen.strategy,
        chosen.workers,
        chosen.rate.value,
        chosen.rate.low,
        chosen.rate.high,
        chosen.prediction.rate,
        found.sure,
        round(seconds, 1),
    )


def append(folder: Path, given: GivenAnswer) -> None:
    """Keep an answer; raise StorageError."""
    try:
        with (folder / FILE).open("a") as file:
            file.write(json.dumps(asdict(given)) + "\n")
    except OSError as error:
        raise StorageError(f"{folder / FILE}: {error.strerror}", "fix its rights") from error
