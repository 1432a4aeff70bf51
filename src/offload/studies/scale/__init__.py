"""scale: the rate over workers, processes or users, and where more of them stop helping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import options
from offload.errors import UsageError
from offload.options import arguments
from offload.registry import catalog, entries
from offload.studies import PlannedStudy, Run, check_disturbance

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.engine.plan import Plan
    from offload.studies.scale.sweep import Grid, Sweep
    from offload.suites import Case

MOST_SIZES = 36  # of a grid: each takes about half a minute


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Find where more workers stop helping.

    The exit code is 5 if no number has a rate, and 7 if other processes disturbed the measurement.

    Examples:
      offload scale 3/xml_lxml_sync workers=1..16
      offload scale 3x8/sleep_sync users=1+8+64
    """

    case: options.CaseText = ""
    _: KW_ONLY
    workers: options.ScaleWorkers = ""
    processes: options.ScaleProcesses = ""
    users: options.ScaleUsers = ""
    keep_alive: options.KeepAlive = False
    served: options.CaseOptions = options.CaseOptions()
    output: options.Output = options.Output()


class Scale(PlannedStudy[Options, "Sweep | Grid"]):
    """The rate by number, the number that is enough, and a model; or a grid of two sizes."""

    options = Options

    def plan(self, options: Options) -> Plan:
        from offload.engine import plan
        from offload.engine.plan import form_blocks
        from offload.studies.scale import sweep

        workers, processes, users = options.workers, options.processes, options.users
        if not workers and not users and not processes:
            raise UsageError("nothing to vary", "use workers=1..16, processes=1..4 or users=1..64")
        is_of_sizes = bool(workers or processes)
        count = arguments.whole_number("users", users or "25", 1, 20_000) if is_of_sizes else 1
        base = options.served.case(options.case)
        one = replace(base, users=count, keep_alive=options.keep_alive)
        if is_of_sizes:
            cases = _sizes(one, options.case, processes, workers)
        else:
            cases = sweep.cases(one, sweep.USERS, _numbers(sweep.USERS, users, 20_000))
        if len(cases) == 1:
            raise UsageError(f"{cases[0].name} alone varies nothing", "use a range, such as 1..16")
        seed, own = plan.new_seed(), form_blocks(cases)
        return plan.Plan("scale", cases, seed, None, plan.Sequential(quick=True), blocks=own)

    def notices(self, plan: Plan) -> Iterator[str]:
        from offload.studies.scale import sweep
        from offload.studies.scale.models import too_few

        is_curve = sweep.varied(plan.cases) != sweep.SIZES
        if is_curve and (few := too_few(range(len(plan.cases)))):
            yield f"rates only, no model: {few}"

    def result(self, run: Run) -> Sweep | Grid:
        from offload.studies.scale import sweep

        over = sweep.varied(run.plan.cases)
        is_grid = over == sweep.SIZES
        return sweep.fit_grid(run.records) if is_grid else sweep.fit(run.records, over)

    def document(self, result: Sweep | Grid) -> Document:
        from offload.studies.scale import curve, grid
        from offload.studies.scale.sweep import Grid

        return grid.document(result) if isinstance(result, Grid) else curve.document(result)

    def values(self, result: Sweep | Grid) -> Any:
        from offload.studies.scale import curve, grid
        from offload.studies.scale.sweep import Grid

        return grid.values(result) if isinstance(result, Grid) else curve.values(result)

    def check(self, result: Sweep | Grid) -> None:
        check_disturbance(result.disturbed)


def _numbers(name: str, text: str, most: int) -> list[int]:
    numbers = arguments.whole_numbers(name, text, 1, most)
    if len(numbers) == 1:
        raise UsageError(f"{name}={numbers[0]} varies nothing", f"use a range: {name}=1..16")
    return numbers


def _sizes(one: Case, case: str, processes: str, workers: str) -> tuple[Case, ...]:
    """Return a case in the sizes of the options `processes` and `workers`; raise UsageError."""
    from offload.studies.scale import sweep

    server = catalog.find_server(one.server)
    given = {"processes": processes, "workers": workers}
    numbers: dict[str, list[int]] = {}
    for name, text in given.items():
        if not text:
            continue
        setting = name if name in server.settings else server.size or name
        if setting in one.settings:
            what = f"{case!r} has a number of {setting}, and {name}= varies it"
            raise UsageError(what, f"leave x{one.settings[setting]} out")
        most = entries.maximum(setting, server.settings.get(setting))
        numbers[name] = arguments.whole_numbers(name, text, 1, most, doubles=all(given.values()))
    if len(numbers) == 1:
        [(name, only)] = numbers.items()
        found = sweep.cases(one, name, only)
    elif "workers" in server.settings:
        found = sweep.grid_cases(one, numbers["processes"], numbers["workers"])
    else:
        raise UsageError(f"{server.name} has one size", "leave processes= or workers= out")
    for each in found:
        entries.check_product(each.settings, server.settings)
    if len(found) > MOST_SIZES:
        what = f"{len(found)} sizes are more than {MOST_SIZES}"
        raise UsageError(what, "list fewer: processes=1+2,workers=8+32")
    return found


STUDY = Scale()
