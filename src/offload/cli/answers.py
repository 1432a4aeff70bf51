"""Print the answer of a finished run: a comparison, a scaling curve, a GIL cost, or its tables.

The plan determines the kind of answer, so a resumed run has the same output as its first command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offload.cli import plan_run, run_reports
from offload.errors import DisturbedError, GateError, RunError, UndecidedError
from offload.registry.application import is_application

if TYPE_CHECKING:
    from offload.bench.experiments.gate import GateResult
    from offload.bench.planning.plan import Plan
    from offload.bench.records.record import Record
    from offload.flags import Flag


def print_answer(plan: Plan, folder: Path, records: Sequence[Record], format: str) -> None:  # noqa: A002
    """Print the answer of a finished run as text or JSON; raise RunError if it has no figures."""
    printers: dict[str, Callable[[Plan, Path, Sequence[Record], str], None]] = {
        "advise": _advice,
        "compare": _comparison,
        "gil": _gil_cost,
        "scale": _scaling,
        "capacity": _capacity,
        "gate": _gate,
    }
    if plan.suite in printers:
        printers[plan.suite](plan, folder, records, format)
    elif plan.suite == "measure":
        plan_run.show(records, format)
    else:
        plan_run.show_results(records, format)


def _comparison(plan: Plan, folder: Path, records: Sequence[Record], style: str) -> None:
    from offload.bench.experiments import paired
    from offload.reports import comparison

    one, other = plan.cases
    result = paired.evaluate(one, other, records, folder)
    print(comparison.as_json(result) if style == "json" else comparison.text(result))
    check_disturbance(result.comparison.disturbed)


def check_disturbance(disturbed: Flag | None) -> None:
    """Raise DisturbedError if other processes disturbed a measurement."""
    if disturbed is not None:
        raise DisturbedError("no verdict", disturbed.remedy)


def _gate(plan: Plan, folder: Path, records: Sequence[Record], style: str) -> None:
    from offload.bench.experiments import gate

    with run_reports.records_of_others(folder.name):
        print_gate(gate.evaluate(plan, records, folder), style)


def print_gate(found: GateResult, style: str) -> None:
    """Print the result of a gate and write it in every format; raise an error unless it passed."""
    from offload.bench.experiments import gate
    from offload.reports.gate import formats, sentences

    print(formats.render(found, style), end="")
    folder = formats.publish(found)
    if style == "text":
        print(f"in every format: {folder}")
    if found.outcome == gate.RED:
        raise GateError(sentences.headline(found).removesuffix("."), sentences.names(found))
    if found.outcome != gate.PASSED:
        raise UndecidedError(sentences.headline(found).removesuffix("."), sentences.names(found))


def _advice(plan: Plan, folder: Path, records: Sequence[Record], style: str) -> None:
    from offload.cli import advice
    from offload.studies.advise import study

    found = study.load(folder, plan, records)
    advice.show(found, folder, style)
    advice.check(found)


def _gil_cost(plan: Plan, folder: Path, records: Sequence[Record], style: str) -> None:
    from offload.bench.experiments import gil_cost, paired
    from offload.bench.experiments.progress.display import duration
    from offload.reports.gil import cost as report

    threads, processes = plan.cases
    paired.evaluate(threads, processes, records, folder)  # raise RunError before the direct calls
    direct = None
    if not is_application(threads.task):
        least = duration(gil_cost.direct_least_s(records))
        what = "direct calls in one thread, threads and processes"
        print(f"{what}: at least {least}", file=sys.stderr)
        with plan_run.start_errors_as_run_errors():
            direct = gil_cost.measure_direct(threads, int(str(threads.settings["workers"])))
    found = gil_cost.evaluate(threads, processes, records, folder, direct)
    print(report.as_json(found) if style == "json" else report.text(found))
    check_disturbance(found.cases.comparison.disturbed)


def _scaling(plan: Plan, folder: Path, records: Sequence[Record], style: str) -> None:
    from offload.bench.experiments import sweep
    from offload.reports.tables import grid_table, scaling_table

    if (over := sweep.varied(plan.cases)) == sweep.SIZES:
        grid = sweep.fit_grid(records)
        print(grid_table.as_json(grid) if style == "json" else grid_table.text(grid))
        check_disturbance(grid.disturbed)
        return
    found = sweep.fit(records, over)
    print(scaling_table.as_json(found) if style == "json" else scaling_table.text(found))
    check_disturbance(found.disturbed)


def _capacity(plan: Plan, folder: Path, records: Sequence[Record], style: str) -> None:
    from offload.bench.analysis import latency_capacity
    from offload.reports.tables import capacity_table

    assert plan.latency is not None
    found, name = latency_capacity.evaluate(plan.latency, records), plan.cases[0].name
    render = capacity_table.as_json if style == "json" else capacity_table.text
    print(render(found, name, records))
    problem = next((record.problem for record in records if record.problem is not None), None)
    if problem is not None:
        raise RunError(problem.text)
    if found.value is None:
        raise RunError(f"{name}: {capacity_table.sentence(found)}", capacity_table.remedy(found))
