"""What the GIL costs one task: a visit with the meter, direct calls, and pairs over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from offload.bench.experiments import paired
from offload.bench.experiments.direct_calls import direct
from offload.bench.experiments.paired import Comparison
from offload.bench.experiments.speed_up import SpeedUp, speed_ups
from offload.bench.records import gil, journal
from offload.bench.records.gil import Gil
from offload.bench.records.record import VISIT, Record
from offload.bench.stats.gil import cost
from offload.bench.target.needed_upstream import hold_for
from offload.bench.trial import builder
from offload.bench.trial.trial import visit
from offload.errors import RunError
from offload.suites import Case
from offload.upstream import Upstream

PAIRS = 10  # at most: C is a figure with an interval, and no verdict that must be reached
Tell = Callable[[str], object]


@dataclass(frozen=True)
class GilCost:
    """What was found of one task: `gil` by the meter and the clocks of a `visit` to threads.

    `threads` and `processes` are what workers do by direct calls, and `cost_direct` is 1 - threads
    / processes of them. `compared` has the pairs of threads and processes over HTTP.
    """

    visit: Record
    gil: Gil
    compared: Comparison
    threads: SpeedUp
    processes: SpeedUp

    @property
    def cost_direct(self) -> float:
        """C of direct calls: the share of the rate that threads lose against processes."""
        return cost(self.threads.ratio, self.processes.ratio)

    @property
    def cost(self) -> tuple[float | None, float | None, float | None]:
        """C over HTTP with its interval: 1 - 1 / (processes : threads)."""
        found = self.compared.verdict
        value, low, high = (_lost(ratio) for ratio in (found.ratio, found.low, found.high))
        return value, low, high


def measure_gil_cost(threads: Case, processes: Case, tell: Tell) -> GilCost:
    """Measure what the GIL costs the task of two cases that differ in their server alone.

    All records are of one run. Raises RunError when the visit has no figures, and what starting a
    server raises.
    """
    workers = int(str(threads.settings["workers"]))
    with ExitStack() as stack:
        folder = stack.enter_context(paired.run_of("gil", threads, processes))
        held = stack.enter_context(hold_for(threads))
        tell("a visit to threads, with the meter: some 6 s")
        record = _visit(threads, folder.name, held)
        if (
            record.problem is None or record.result.completed
        ):  # else its problem is all there is to keep
            journal.append(folder, record)
        if record.problem is not None:
            raise RunError(str(record.problem))
        tell("direct calls, one thread, all threads, all processes: some 10 s")
        environment = {} if held is None else held.environment()
        calls = direct(threads.task, workers, threads.python, threads.path, environment)
        found = speed_ups(stack.enter_context(calls), workers, ("threads", "processes"))
        tell("pairs of threads and processes over HTTP")
        compared = paired.pairs_of(threads, processes, folder, is_quick=True, most=PAIRS)
    return GilCost(record, gil.gil_figures(record), compared, found["threads"], found["processes"])


def _visit(case: Case, run: str, held: Upstream | None) -> Record:
    # round 0, for those from 1 on are of the pairs
    made = builder.trial(run, kind=VISIT, suite="gil", round=0)
    return visit(case, "builtin", made, held, lambda *_: None, gil=True)


def _lost(ratio: float | None) -> float | None:
    return None if ratio is None else cost(1.0, ratio)
