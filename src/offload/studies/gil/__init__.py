"""gil: what the GIL costs a task, by threads and processes over HTTP and in direct calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import options
from offload.errors import RunError, StartError, UsageError
from offload.options import application_task
from offload.registry import catalog
from offload.registry.catalog import is_application
from offload.studies import PlannedStudy, Run, check_disturbance

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.engine.plan import Plan
    from offload.studies.gil.cost import GilCost

MOST_WORKERS = 256  # of a pool of processes


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Measure the cost of the GIL for a task, with advice.

    With processes= each of several processes has its threads and its GIL, and the answer has the
    share of each.
    Your own application runs under gunicorn, one of Tornado by prefork: one process (with
    threads, if it is a WSGI application) is compared with several processes. The exit code is 5 if
    a server does not start or all its requests fail, and 7 if other processes disturbed the
    measurement.

    Examples:
      offload gil xml_feedparser_sync
      offload gil shop.pricing:quote processes=2 workers=8
      offload gil app=shop.web:app request=/quote/7
    """

    task: options.Task = ""
    _: KW_ONLY
    workers: options.GilWorkers = 4
    processes: options.GilProcesses = 1
    python: options.Python = ""
    served: options.CaseOptions = options.CaseOptions()
    output: options.Output = options.Output()


class Gil(PlannedStudy[Options, "GilCost"]):
    """The figures of the GIL, and what follows from them."""

    group = "Understand"
    options = Options

    def plan(self, options: Options) -> Plan:
        from offload.engine.plan import comparison_plan
        from offload.studies.gil import cost
        from offload.suites import Case

        task, served = options.task, options.served
        workers, count = options.workers, options.processes
        if bool(task) == bool(served.app):
            what = "a task and app= exclude each other" if task else "no task given"
            raise UsageError(
                what, "use offload gil TASK with a task from offload list, or your own"
            )
        work = application_task(served.app) if served.app else catalog.find_task(task).name
        if not served.app:
            served.check_unused()
        if (total := count * workers) > MOST_WORKERS:
            what = f"{count} processes of {workers} threads are {total} threads"
            raise UsageError(what, f"use at most {MOST_WORKERS}: as many worker processes start")
        sizes = {"workers": workers} | ({"processes": count} if count > 1 else {})
        threads = Case(
            "threads",
            work,
            users=2 * total,  # saturate the workers; more users only wait longer
            settings=sizes,
            python=options.python or None,
            path=served.path,
            request=served.parse(),
        )
        processes = replace(threads, server="processes", settings={"workers": total})
        if served.app:
            threads, processes = cost.application_cases(work, workers, threads, count)
        compared = comparison_plan("gil", threads, processes, is_quick=True)
        return replace(compared, sampled=(0,))

    def complete(self, run: Run, report: Callable[[str], object]) -> None:
        from offload.engine.figures import compare_cases
        from offload.engine.progress import duration
        from offload.studies.gil import cost

        threads, processes = run.plan.cases
        if is_application(threads.task) or cost.read_direct(run.folder) is not None:
            return
        compare_cases(threads, processes, run.records, run.folder)  # raises without rates
        least = duration(cost.direct_least_s(run.records))
        report(f"direct calls in one thread, threads and processes: at least {least}")
        try:
            found = cost.measure_direct(threads, int(str(threads.settings["workers"])))
        except StartError as error:  # the run has no figures then
            raise RunError(str(error)) from error
        cost.save_direct(run.folder, found)

    def result(self, run: Run) -> GilCost:
        from offload.studies.gil import cost

        threads, processes = run.plan.cases
        direct = cost.read_direct(run.folder)
        return cost.evaluate(threads, processes, run.records, run.folder, direct)

    def document(self, result: GilCost) -> Document:
        from offload.studies.gil import document

        return document.document(result)

    def values(self, result: GilCost) -> Any:
        from offload.studies.gil import document

        return document.values(result)

    def check(self, result: GilCost) -> None:
        check_disturbance(result.cases.comparison.disturbed)


STUDY = Gil()
