"""The answer for an application: the question, the measured options, and which one to use."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offload import files
from offload.bench.advice import certainty
from offload.bench.advice.answer import FILE, read
from offload.bench.advice.application import sizes
from offload.bench.advice.application.sizes import Size
from offload.bench.advice.latency import Percentile
from offload.bench.analysis.application_causes import Cause
from offload.bench.analysis.comparison import Comparison
from offload.bench.records import lines
from offload.bench.stats.estimate import Estimate
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
        compared = (option.compared for option in self.others)
        return certainty.of_answer(self.tie, compared, self.disturbed)


def save(question: Question, folder: Path) -> None:
    """Save a question in its run's folder."""
    values = json.dumps({"application": asdict(question)}, indent=1)
    files.replace(folder / FILE, values.encode() + b"\n")


def load(folder: Path) -> Question:
    """Read the question of a run; raise StorageError."""
    return read(folder, _question)


def _question(values: Any) -> Question:
    question: Question = lines.built(Question, values["application"], "question")
    return question
