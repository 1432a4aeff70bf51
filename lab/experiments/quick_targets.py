"""Check the duration and the precision of `fab quick` while another process uses the CPU.

Arguments of python -m lab quick_targets:

(none)           five runs beside a process that uses an eighth of the machine
--others 0.25    beside one that uses a quarter of the machine
--reference      measure the effects in 40 rounds, as the reference
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offload.cli.runner import start_run
from offload.documents.comparisons import Effect, effects
from offload.documents.rows import rows
from offload.engine import journal
from offload.engine.plan import Fixed
from offload.errors import StorageError
from offload.studies.suite import suite_plan
from offload.units import percent
from scripts.script import ROOT, run

LONGEST = 300.0  # s until fab quick prints its table
BEYOND = 1.15  # factor: larger effects must be found
WIDTH = 0.10  # median half-width of the ratios' intervals
ROUNDS = 40  # in the reference run
PERIOD = 0.1  # s: the busy process works for a share of each period
REFERENCE = ROOT / "results" / "reference-effects"
FAB = Path(sys.executable).with_name("fab")
WORK = """
import os, sys, time
share, period, parent = float(sys.argv[1]), float(sys.argv[2]), os.getppid()
while os.getppid() == parent:  # also if the script is killed
    began = time.perf_counter()
    while time.perf_counter() < began + share * period:
        pass
    time.sleep((1 - share) * period)
"""


@dataclass(frozen=True)
class Outcome:
    """The duration of a run in s, and its effects by task."""

    seconds: float
    effects: dict[str, Effect]

    @property
    def width(self) -> float:
        """The median half-width of the ratios' intervals, as a share."""
        return statistics.median(
            (v.high / v.low) ** 0.5 - 1 if v.low and v.high else float("inf")
            for v in (effect.verdict for effect in self.effects.values())
        )


@contextlib.contextmanager
def busy(share: float) -> Iterator[None]:
    """Run busy processes that use a share of the whole machine, at most one core each."""
    cores = share * (os.cpu_count() or 1)
    parts = [min(1.0, cores - n) for n in range(int(cores) + 1) if cores - n > 0]
    started = [
        subprocess.Popen([sys.executable, "-c", WORK, str(part), str(PERIOD)]) for part in parts
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def effects_of(folder: Path) -> dict[str, Effect]:
    """Return the effects of a run by task, except those at the pool's limit."""
    return {e.threads.first.case.task: e for e in effects(rows(journal.read(folder)))}


def measure_reference() -> Path:
    """Measure the comparison blocks of `fab quick` for 40 rounds, without long runs."""
    plan = suite_plan("tornado", "published", "builtin", is_quick=True, target=None)
    blocks = tuple(b for b in plan.blocks if not b.measured_alone and len(b.cases) == 2)
    folder, _ = start_run(
        replace(plan, driver=None, blocks=blocks, rule=Fixed(rounds=ROUNDS, quick=True))
    )
    return folder


def run_quick() -> Outcome:
    """Run `fab quick` as a user would."""
    known = {*journal.folders()}
    began = time.monotonic()
    subprocess.run([FAB, "quick"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    [new] = {*journal.folders()} - known
    return Outcome(seconds, effects_of(new))


def wanted(reference: dict[str, Effect]) -> set[str]:
    """Return the tasks with an effect larger than BEYOND."""
    return {
        task
        for task, e in reference.items()
        if not 1 / BEYOND <= (e.verdict.ratio or 1.0) <= BEYOND
    }


def judge(runs: Sequence[Outcome], tasks: set[str]) -> list[tuple[str, str, str, bool]]:
    """Return a row for each requirement: name, measured and required figure, whether it is met."""
    longest = max(run.seconds for run in runs)
    found_tasks = [
        {t for t, e in run.effects.items() if e.verdict.outcome in ("faster", "slower")}
        for run in runs
    ]
    complete = sum(found >= tasks for found in found_tasks)
    few = sorted({task for found in found_tasks for task in tasks - found})
    missed = f", not: {', '.join(few)}" if few else ""
    width = statistics.median(run.width for run in runs)
    return [
        (
            "time until the table",
            f"{longest:.0f} s",
            f"at most {LONGEST:.0f} s",
            longest <= LONGEST,
        ),
        (
            f"effects beyond {BEYOND}",
            f"all of {len(tasks)} in {complete} of {len(runs)} runs{missed}",
            "all effects in all runs",
            complete == len(runs),
        ),
        (
            "half-width of the ratios",
            percent(width, 1),
            f"median at most {percent(WIDTH)}",
            width <= WIDTH,
        ),
    ]


def main(arguments: list[str]) -> int:
    """Measure and print a line for each requirement; return 1 if one is not met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--others", type=float, default=0.125, help="share of the machine")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--reference", action="store_true", help="measure the reference")
    options = parser.parse_args(arguments)
    if not options.reference and not journal.exists(REFERENCE):
        where = REFERENCE.relative_to(ROOT)
        raise StorageError(f"no reference in {where}", "measure it with --reference and copy it")
    with busy(options.others):
        if options.reference:
            print(f"reference: {measure_reference()}")
            return 0
        runs = []
        for number in range(options.runs):
            runs.append(run_quick())
            shown = {
                task: (e.verdict.outcome, e.verdict.ratio, e.verdict.low, e.verdict.high)
                for task, e in runs[-1].effects.items()
            }
            print(f"run {number + 1}: {runs[-1].seconds:.0f} s, {json.dumps(shown)}", flush=True)
    lines = judge(runs, wanted(effects_of(REFERENCE)))
    for what, measured, required, is_met in lines:
        print(f"{'ok' if is_met else 'MISSED':6}  {what:26}  {measured}  (required: {required})")
    return 0 if all(line[-1] for line in lines) else 1


if __name__ == "__main__":
    run(main)
