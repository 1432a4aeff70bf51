"""The question that advice answers: its inputs, saved beside the records of its run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import harmonic_mean
from typing import Any, TypeVar

from offload import files
from offload.bench.advice.inputs import overhead
from offload.bench.advice.inputs.overhead import Overhead
from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.prediction.model import Model, Prediction
from offload.bench.records import journal, lines
from offload.errors import StorageError

FILE = "advice.json"
T = TypeVar("T")


@dataclass(frozen=True)
class OtherPython:
    """The best prediction for the same task in another interpreter, or the problem.

    `ratio` is its rate divided by that of the best prediction in this interpreter.
    """

    name: str
    prediction: Prediction | None = None
    ratio: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Question:
    """The inputs from which the candidates were derived, saved beside their records.

    `overheads` are by strategy, and `users` is the number of concurrent users. The constraints are
    the memory of the server in MiB and the 99th percentile of response times in s; None: no
    constraint. `busy_cpu_s` are CPU times of a call in s, measured between the rounds in
    `Probe.busy_processes`. `python_s` is the mean duration of fixed work in Python during the
    rounds (see `machine_speed`); None before them: then that of the probe is used.
    `overhead_warning` is the reason why the overheads are incomplete or uncertain; None if they are
    neither. `pythons` are predictions for other interpreters. `cpus` is the number of CPUs to which
    everything is restricted; None: all. `are_overheads_typical` is True if none were measured on
    this machine.
    """

    probe: Probe
    overheads: Mapping[str, Overhead]
    users: int
    memory_mib: float | None = None
    p99_s: float | None = None
    busy_cpu_s: tuple[float, ...] = ()
    python_s: float | None = None
    overhead_warning: str | None = None
    pythons: tuple[OtherPython, ...] = ()
    cpus: int | None = None
    are_overheads_typical: bool = False

    @property
    def model(self) -> Model:
        """The model of this probe, with the CPU time of calls between the rounds, if it is known.

        Rates are proportional to 1 / CPU time, so the CPU times have their harmonic mean. The
        overheads are those at the speed of the machine.
        """
        probe = self.probe
        if self.busy_cpu_s:
            probe = probe.with_cpu_time(harmonic_mean(self.busy_cpu_s))
        speed_s = self.python_s or probe.python_s
        overheads = {name: each.at(speed_s) for name, each in self.overheads.items()}
        return Model(probe, overheads, self.users, self.memory_mib)


def save(question: Question, folder: Path) -> None:
    """Save a question in its run's folder; raise StorageError."""
    journal.replace(folder / FILE, f"{json.dumps(asdict(question), indent=1)}\n")


def load(folder: Path) -> Question:
    """Read the question of a run; raise StorageError."""
    return read(folder, _question)


def _question(values: Any) -> Question:
    """Return the question from its JSON; raise the errors of values that `read` handles."""
    probe = lines.built(Probe, values["probe"], "probe")
    busy_cpu_s = tuple(float(each) for each in values.get("busy_cpu_s", ()))
    if not all(each > 0 for each in busy_cpu_s):
        raise ValueError("busy_cpu_s has a time that is not positive")
    found = Question(
        probe,
        overhead.read(values["overheads"]),
        int(values["users"]),
        _limit(values, "memory_mib"),
        _limit(values, "p99_s"),
        busy_cpu_s,
        overhead_warning=_text(values, "overhead_warning"),
        pythons=tuple(lines.built(OtherPython, p, "python") for p in values.get("pythons", ())),
        cpus=None if values.get("cpus") is None else int(values["cpus"]),
        are_overheads_typical=values.get("are_overheads_typical") is True,
    )
    if found.users < 1 or not found.model.ranking():  # which raises an error for times that are 0
        raise ValueError("no strategy is possible")
    return found


def _limit(values: Mapping[str, Any], name: str) -> float | None:
    """Return the value of a constraint, which is positive; None if there is none."""
    if (value := values.get(name)) is None:
        return None
    if not 0 < float(value) < math.inf:
        raise ValueError(f"{name} is not positive")
    return float(value)


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return None if value is None else str(value)


def read(folder: Path, build: Callable[[Any], T], name: str = FILE) -> T:
    """Build a question from the values in its run's folder; raise StorageError.

    `build` raises ValueError, TypeError, KeyError, AttributeError or ArithmeticError for values
    that are not valid.
    """
    path = folder / name
    try:
        return build(files.parse_json(files.read(path)))
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "repeat offload advise") from error
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        what = f"{path} is not readable by this version: {error}"
        raise StorageError(what, "repeat offload advise") from error
    except RecursionError:
        raise StorageError(f"{path} is nested too deeply", "repeat offload advise") from None
