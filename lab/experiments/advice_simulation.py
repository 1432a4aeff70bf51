"""Compare the model of the advice with a simulation, for 2 to 16 cores.

Usage: python -m lab advice_simulation [--write]

Larger machines cannot be measured here. Instead, users, event loop, workers, cores and GIL are
simulated as discrete events (simpy). For each number of cores it prints:

Rates    the number of predicted rates (each call, strategy and size), and the median and the 90th
         percentile of their relative errors
Choices  the number of recommended strategies and sizes, one for each call, and the mean and the
         minimum of their simulated rates, as shares of the highest simulated rate

--write updates lab/advice.rst. The exit code is 1 if a choice has less than 90 % of the highest
rate.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.experiments import server_simulation as simulation
from lab.experiments.server_simulation import Call
from offload.bench.advice.inputs.call_cost import CallCost
from offload.bench.advice.inputs.overhead import Overhead
from offload.bench.advice.inputs.probe import Point, Probe, ProcessCost
from offload.bench.advice.prediction.model import Model
from offload.bench.advice.strategies import STRATEGIES
from offload.errors import UsageError
from offload.reports.tables import text_table
from offload.reports.tables.text_table import Line
from offload.units import percent
from scripts.pages.table import between
from scripts.script import ROOT, run

DOCUMENT = ROOT / "lab" / "advice.rst"
CORES = (2, 4, 8, 16)
USERS = 64
LEAST = 0.9
CALLS = tuple(
    Call(wait_s, cpu_s, hold)
    for wait_s, cpu_s in (
        (0.05, 0.001),
        (0.05, 0.004),
        (0.02, 0.02),
        (0.0, 0.01),
        (0.005, 0.002),
        (0.2, 0.05),
    )
    for hold in (0.0, 0.5, 1.0)
)
OVERHEADS = {  # measured on 2 cores
    "loop": Overhead(0.0004, 0.0006),
    "threads": Overhead(0.0004, 0.0006),
    "processes": Overhead(0.0006, 0.0008),
    "pipes": Overhead(0.0004, 0.0006),
    "prefork": Overhead(0.0005, 0.0008),
}
HEAD = (
    "Cores",
    "Rates",
    "Median error",
    "90th percentile",
    "Choices",
    "Mean of the best rate",
    "Worst",
)


@dataclass(frozen=True)
class Found:
    """One call on a machine: the errors of all predictions, and the share of the choice."""

    errors: Sequence[float]
    share: float


def main(words: list[str]) -> int:
    """Simulate every call on every machine, and print the table."""
    if words not in ([], ["--write"]):
        raise UsageError(f"{' '.join(words)!r} is unknown", "use no words, or --write")
    found: dict[int, list[Found]] = {}
    for cores in CORES:
        for call in CALLS:
            found.setdefault(cores, []).append(_of(call, cores))
            print(f"{cores} cores, {call}: {found[cores][-1].share:.2f}", file=sys.stderr)
    print(_table(found))
    if words:
        text = _table(found, text_table.RST)
        DOCUMENT.write_text(between(DOCUMENT.read_text(), "simulation", [text]))
    return 0 if all(one.share >= LEAST for own in found.values() for one in own) else 1


def _of(call: Call, cores: int) -> Found:
    model = Model(_probe(call, cores), OVERHEADS, USERS)
    rates, errors = {}, []
    for strategy, workers in _sizes(model):
        rate = simulation.rate(strategy, workers, call, cores, USERS, OVERHEADS[strategy])
        rates[strategy, workers] = rate
        errors.append(abs(model.predict(strategy, workers).rate / rate - 1))
    chosen = model.ranking()[0]
    return Found(errors, rates[chosen.strategy, chosen.workers] / max(rates.values()))


def _sizes(model: Model) -> Iterator[tuple[str, int]]:
    for strategy in STRATEGIES:
        for workers in [1] if strategy == "loop" else model.sizes(strategy):
            yield strategy, workers


def _probe(call: Call, cores: int) -> Probe:
    """Return the probe that a machine without overhead would have of a call."""
    wall_s, held_s = call.wait_s + call.cpu_s, call.cpu_s * call.hold
    points = []
    for count in (cores, 4 * cores):
        rate = min(count / wall_s, cores / call.cpu_s)
        in_threads = min(rate, 1 / held_s) if held_s else rate
        for kind, own in (("threads", in_threads), ("processes", rate)):
            points.append(Point(kind, count, own, count / own, call.cpu_s, 0.0, 0.0, 1, 15.0))
    cost = CallCost(
        wall_s, call.cpu_s, 0.0, simulation.VARIATION, held_s / wall_s, 100, 1, 0.0, None
    )
    process = ProcessCost(0.01, wall_s, 20.0, 0.0, 0)
    return Probe("call", "", True, False, cores, cost, process, None, tuple(points))


def _table(found: Mapping[int, Sequence[Found]], style: str = "simple") -> str:
    lines = []
    for cores, own in found.items():
        errors = sorted(error for one in own for error in one.errors)
        shares = [one.share for one in own]
        cells = (
            str(cores),
            str(len(errors)),
            percent(statistics.median(errors)),
            percent(errors[int(0.9 * len(errors))]),
            str(len(shares)),
            percent(statistics.fmean(shares)),
            percent(min(shares)),
        )
        lines.append(Line(cells))
    return text_table.render(HEAD, lines, style)


if __name__ == "__main__":
    run(main)
