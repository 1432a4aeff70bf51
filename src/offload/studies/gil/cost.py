"""The cost of the GIL for a task: compare threads and processes, over HTTP and by direct calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from offload import files
from offload.causes import diagnosis
from offload.engine import journal
from offload.engine.calling_process import find_application
from offload.engine.figures import ComparedCases, compare_cases
from offload.engine.record import Record, RunRecords, dataclass_from
from offload.engine.server import hold_for
from offload.errors import RunError, StorageError
from offload.studies.gil.direct_calls import SpeedUp, direct, least_s, speed_ups
from offload.studies.gil.figures import Gil, cost, gil_figures
from offload.suites import Case

KINDS = ("threads", "processes")  # of workers that call the task directly


@dataclass(frozen=True)
class GilCost:
    """The figures of one task: `gil` is derived from `window`, one of threads in the first round.

    `cases` is the comparison of threads and processes over HTTP. `threads` and `processes` are the
    speed-ups by direct calls; None for a user's application, which cannot be called directly.
    """

    window: Record
    gil: Gil
    cases: ComparedCases
    threads: SpeedUp | None
    processes: SpeedUp | None

    @property
    def cost_direct(self) -> float | None:
        """C of direct calls, 1 - threads / processes: the share of the rate that threads lose."""
        if self.threads is None or self.processes is None:
            return None
        return cost(self.threads.ratio, self.processes.ratio)

    @property
    def cost(self) -> tuple[float | None, float | None, float | None]:
        """C over HTTP with its interval: 1 - 1 / R, with R the ratio of processes over threads."""
        found = self.cases.comparison.verdict
        value, low, high = (_cost(ratio) for ratio in (found.ratio, found.low, found.high))
        return value, low, high


def read_direct(folder: Path) -> dict[str, SpeedUp] | None:
    """Return the saved speed-ups of direct calls of a run; None if there are none."""
    try:
        found = files.parse_json(files.read(folder / journal.QUESTION))
        return {kind: dataclass_from(SpeedUp, found[kind]) for kind in KINDS}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError) as error:
        what = f"{folder / journal.QUESTION} is not readable: {error}"
        raise StorageError(what, "remove it: the direct calls are then repeated") from error


def save_direct(folder: Path, found: Mapping[str, SpeedUp]) -> None:
    """Save the speed-ups of direct calls beside the records of their run."""
    values = {kind: asdict(each) for kind, each in found.items()}
    journal.replace(folder / journal.QUESTION, f"{json.dumps(values, indent=1)}\n")


def direct_least_s(records: Sequence[Record]) -> float:
    """Return the time in s that `measure_direct` takes at least, from the records of the run."""
    alone = [r.baseline.alone_s for r in records if r.baseline.alone_s is not None]
    return least_s(len(KINDS), min(alone, default=0.0))


def measure_direct(threads: Case, workers: int) -> dict[str, SpeedUp]:
    """Measure threads and processes of a task by direct calls, without HTTP."""
    with ExitStack() as stack:
        held = stack.enter_context(hold_for(threads))
        environment = {} if held is None else held.environment()
        calls = direct(threads.task, threads.python, threads.path, environment)
        return speed_ups(stack.enter_context(calls), workers, KINDS)


def evaluate(
    threads: Case,
    processes: Case,
    records: Sequence[Record],
    folder: Path,
    direct_calls: Mapping[str, SpeedUp] | None,
) -> GilCost:
    """Return the cost of the GIL, from the records of a run of both cases and from direct calls.

    `direct_calls` is None for a user's application. Raise RunError if one of the cases has no rate.
    """
    compared = compare_cases(threads, processes, records, folder, diagnosis.explain)
    measured = [r for r in RunRecords(records).at(0).windows() if r.trial.round == 1]
    if not measured or not measured[-1].result.completed:
        raise RunError(f"{threads.name}: the first round has no figures; records: {folder}")
    window = measured[-1]
    found = gil_figures(window)
    direct = direct_calls or {}
    return GilCost(window, found, compared, direct.get("threads"), direct.get("processes"))


def application_cases(work: str, workers: int, one: Case, processes: int = 1) -> tuple[Case, Case]:
    """Return two cases of a user's application, whose comparison is the cost of the GIL.

    The first has `processes`, each with `workers` threads for a WSGI application; several processes
    have them for `def` endpoints of an application on anyio, too. The second has `processes` x
    `workers` processes. The load, the interpreter and the path are those of `one`.
    """
    found, total = find_application(work, one.python, one.path), processes * workers
    first: tuple[str, dict[str, int]]
    second: tuple[str, dict[str, int]]
    if "wsgi" in found.kinds:
        sizes = {"workers": workers} | ({"processes": processes} if processes > 1 else {})
        first, second = ("gunicorn_gthread", sizes), ("gunicorn_sync", {"workers": total})
    elif "tornado" in found.kinds:
        first, second = ("prefork", {"processes": processes}), ("prefork", {"processes": total})
    elif processes > 1 and found.has_tokens:
        first = ("uvicorn_workers", {"processes": processes, "workers": workers})
        second = ("uvicorn_workers", {"processes": total, "workers": 1})
    else:
        first = ("gunicorn_asgi", {"processes": processes})
        second = ("gunicorn_asgi", {"processes": total})
    threads, others = (
        replace(one, server=server, task=work, settings=settings)
        for server, settings in (first, second)
    )
    return threads, others


def _cost(ratio: float | None) -> float | None:
    return None if ratio is None else cost(1.0, ratio)
