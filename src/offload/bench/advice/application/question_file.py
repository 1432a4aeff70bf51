"""The question that advice on an application answers, saved beside the records of its run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offload.bench.advice.question_file import FILE, read
from offload.bench.records import journal, lines


@dataclass(frozen=True)
class Question:
    """The question about an application: its load, and the constraints.

    `work` is the application, such as app=shop.web:app, and `kinds` are asgi and wsgi. `users` is
    the number of concurrent users, and `cores` that of the available cores. The constraints are the
    memory of all server processes in MiB and the 99th percentile of response times in s; None: no
    constraint. `name` is the application's name in its module; None for settings of Django.
    """

    work: str
    kinds: tuple[str, ...]
    users: int
    cores: int
    memory_mib: float | None = None
    p99_s: float | None = None
    name: str | None = None


def save(question: Question, folder: Path) -> None:
    """Save a question in its run's folder; raise StorageError."""
    values = {"application": asdict(question)}
    journal.replace(folder / FILE, f"{json.dumps(values, indent=1)}\n")


def load(folder: Path) -> Question:
    """Read the question of a run; raise StorageError."""
    return read(folder, _question)


def _question(values: Any) -> Question:
    question: Question = lines.built(Question, values["application"], "question")
    return question
