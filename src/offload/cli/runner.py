"""Run a plan, print its answer, and report the runs in results/.

plan -> start_run -> continue_run, results.txt after each round -> answer, report.html
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from offload import loads
from offload.cli import program
from offload.cli.program import Exit
from offload.errors import StorageError, UsageError, UserError
from offload.options import arguments
from offload.registry import addresses, catalog, places
from offload.studies import Rows, Run, Study, find_study

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.engine.plan import Plan
    from offload.engine.record import Record

R = TypeVar("R")
IDLE_VARIABLE, DEFAULT_MINUTES = "LIVE_MINUTES", "3"
LONGEST_MINUTES = 24 * 60.0
BROWSER_S = 2.0  # s until a browser that was found has started or failed; a guess
OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
GRAPHICAL = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")  # without one it would use the terminal


class TerminalRunner:
    """Runs the commands of studies for a user at a terminal; see `studies.Runner`."""

    def measure(self, plan: Plan, is_opened: bool) -> Run:
        """Measure a plan in a new folder, with its live page in a browser if `is_opened`."""
        folder, records = start_run(plan, is_opened)
        return Run(folder, plan, records)

    def answer(self, study: Study[Any, Any], run: Run, form: str) -> None:
        """Write the report of a run and print its answer; raise the error of its exit code."""
        study.complete(run, program.print_progress)
        write_report(run.folder)
        self.show(study, run.folder, study.result(run), form)

    def show(self, study: Study[Any, R], folder: Path, result: R, form: str) -> None:
        """Print the result of a run in a folder; raise the error of its exit code."""
        text = study.render(folder, result, form)
        print(text)
        study.export(result)
        study.check(result)

    def check(self, plan: Plan) -> None:
        """Raise UserError if a server or a load tool of a plan cannot be started."""
        check(plan)

    def report(self, line: str) -> None:
        """Print a line about a step to stderr."""
        program.print_progress(line)

    def page(self, is_opened: bool) -> Callable[[Path], object]:
        """Return what opens the live page of a run if `is_opened`; raise UsageError."""
        if not is_opened:
            return lambda _: None
        page_idle_s()
        return start_page

    def rows(self, title: str, head: Sequence[str], is_opened: bool) -> Rows:
        """Return a live page of rows; one that shows nothing unless `is_opened`."""
        return start_rows_page(title, head, is_opened)

    @property
    def has_reader(self) -> bool:
        """Whether stdout still has a reader."""
        return not program.has_no_reader(sys.stdout)

    def write_report(self, folder: Path) -> None:
        """Write the report of a run in HTML."""
        write_report(folder)


# A run


def start_run(plan: Plan, is_opened: bool = False) -> tuple[Path, list[Record]]:
    """Run a new plan in a new folder; return the folder and all records.

    With `is_opened` its live page is served and opened first.
    """
    check(plan)  # before the slow imports, so that a missing tool is reported soon
    _check_placements(plan)
    if not find_study(plan.suite).has_failing_cases:
        own = [case for case in plan.cases if catalog.is_own(case.task)]
        if own:
            from offload.engine.calling_process import check_imports

            check_imports(own)
    from offload.engine import journal
    from offload.engine.progress import duration

    if is_opened:
        page_idle_s()  # raises UsageError before anything is written
    folder = journal.new_run(plan.suite)
    journal.save_plan(plan, folder)
    rows = f"{len(plan.cases)} rows" if len(plan.cases) > 1 else plan.cases[0].name
    reason = f" ({plan.missing})" if plan.missing else ""
    long = f", then a longer run of each with {plan.driver}{reason}" if plan.driver else ""
    shortest, longest = map(duration, plan.rule.expected_s(plan))
    time = f"about {longest}" if shortest == longest else f"{shortest} to {longest}"
    print(
        f"{rows}: {plan.rule.LOADS} by builtin{long}: {time}; results in {folder}", file=sys.stderr
    )
    if is_opened:
        start_page(folder)
    return folder, continue_run(plan, folder)


def check(plan: Plan) -> None:
    """Raise UserError if a server or a load tool of a plan cannot be started."""
    from offload.engine import server

    study = find_study(plan.suite)
    for case in plan.cases:
        checked = replace(case, python=None) if study.has_missing_pythons else case
        server.command(checked, port=0)  # raises UsageError for an unknown setting or Python
        load = loads.Load(
            "http://127.0.0.1/",
            case.users,
            case.seconds,
            keep_alive=case.keep_alive,
            message=case.request.message if case.request else loads.Message(),
            processes=case.clients,
        )
        for driver in {"builtin", plan.driver or "builtin"}:
            loads.check(load, driver, case.placement.sender)


def _check_placements(plan: Plan) -> None:
    """Warn of servers that other machines can reach; raise MachineError if a host is missing."""
    bound_to = {str(case.settings["bind"]) for case in plan.cases if "bind" in case.settings}
    for warning in map(addresses.exposure_warning, sorted(bound_to)):
        if warning is not None:
            print(warning, file=sys.stderr)
    if names := {case.placement.hosts for case in plan.cases if case.placement.hosts}:
        from offload.loads import hosts

        for each in names:
            hosts.check(each)


def continue_run(plan: Plan, folder: Path) -> list[Record]:
    """Measure the due rounds and long runs of a plan; return all records."""
    from offload.documents import results_files
    from offload.engine import journal
    from offload.engine.run import run

    records: list[Record] = []
    try:
        for records in run(plan, folder):
            results_files.publish(folder, records)
    except KeyboardInterrupt:
        raise Exit(f"interrupted: {_resume_hint(folder)}", code=130) from None
    except UserError as error:
        if not journal.count(folder):  # no round was finished
            raise
        raise type(error)(f"{error}; {_resume_hint(folder)}") from error
    return records or journal.read_planned_if_any(folder, plan)


def _resume_hint(folder: Path) -> str:
    from offload.engine import journal

    count, run = journal.count(folder), folder.name
    results = f", and printed by offload report {run}" if count else ""
    fix = f"continue with offload resume {run}"
    if journal.has_plan(folder) and journal.load_plan(folder).is_masked:
        fix = "start a new run, because no file has the values or the body of its requests"
    return f"{count} finished loads are kept{results}: {fix}"


# Reports on runs


def find_runs(names: Sequence[str]) -> list[Path]:
    """Return the folders of runs by their names; an empty name is the newest. Raise UserError."""
    from offload.documents.pictures import PALETTE
    from offload.engine import journal

    found = [journal.named(name) if name else journal.newest() for name in names]
    for number, folder in enumerate(found):
        if folder in found[:number]:
            raise UsageError(f"{folder.name} is named twice", "name each run once")
    if len(found) > len(PALETTE):
        raise UsageError(f"{len(found)} runs are too many", f"at most {len(PALETTE)} fit")
    return found


def print_runs(found: Sequence[Path], form: str) -> None:
    """Print the results of runs; raise UserError."""
    from offload.documents import comparisons, html_charts, results_files
    from offload.documents.rows import rows
    from offload.documents.text import render
    from offload.engine import journal
    from offload.errors import printable

    if form == "svg" and len(found) > 1:
        raise UsageError("a picture shows one run", "use run= or format=html")
    texts, objects = [], []
    for folder in found:
        records = journal.read_planned(folder)
        if not records:
            what = f"{folder} has no readable record"
            raise StorageError(what, "choose another run by offload report RUN")
        plan = journal.find_plan(folder)
        answered = None if plan is None else answer(Run(folder, plan, records))
        if form == "json":
            own = {} if answered is None else {"answer": answered[1]}
            objects.append({**own, **results_files.run_values(records)})
        elif form == "svg":
            texts.append(html_charts.effects_svg(comparisons.effects(rows(records))))
        else:
            head = f"{folder.name}\n{'=' * len(folder.name)}\n\n" if len(found) > 1 else ""
            if answered is not None:
                head += f"{render(answered[0])}\n\n"
            # An answer whose rows are set-ups has intervals of its own.
            shows_cases = answered is None or answered[0].shows_cases
            more = f"{results_files.MORE}\n"
            tables = results_files.tables(records, answered is not None) if shows_cases else more
            texts.append(f"{head}{tables}")
    if form == "json":
        print(json.dumps(objects if len(found) > 1 else objects[0], indent=2))
    print(printable("\n".join(texts)), end="")


def answer(run: Run) -> tuple[Document, Any] | None:
    """Return the document and the values of a run; None if its tables are its answer.

    Without a result the document has the reason, and there are no values.
    """
    from offload.documents import Document

    study = find_study(run.plan.suite)
    try:
        result = study.result(run)
    except UserError as error:  # a case has no rate, or a file is missing
        return Document(f"{error.what}.", has_verdict=False), None
    document = study.document(result)
    return None if document is None else (document, study.values(result))


def write_report(folder: Path) -> None:
    """Write a run's report.html and print its path; a failure is a warning in one line."""
    try:
        from offload.documents import html_report

        print(f"report: {html_report.write_report([folder], documents([folder]))}", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 - a run must not fail because of its report
        what = " ".join(str(error).split()) or type(error).__name__
        print(f"warning: no report.html: {what}", file=sys.stderr)


def open_report(folders: Sequence[Path], is_opened: bool) -> None:
    """Write the report of runs in HTML, print its path, and open it; raise UserError."""
    from offload.documents import html_report

    written = html_report.write_report(folders, documents(folders))
    print(written)
    if is_opened and not open_in_browser(written.absolute().as_uri()):
        print(f"warning: no browser was found: open {written} in one", file=sys.stderr)


def documents(folders: Sequence[Path]) -> Mapping[Path, Document]:
    """Return the documents of runs of studies, by folder."""
    with places.full_names():
        known = {folder: _document(folder) for folder in folders}
    return {folder: found for folder, found in known.items() if found is not None}


def _document(folder: Path) -> Document | None:
    from offload.engine import journal

    if (plan := journal.find_plan(folder)) is None:
        return None
    found = answer(Run(folder, plan, journal.read_planned(folder, plan)))
    return None if found is None else found[0]


# The live page of a command: start it, print its address, and open it in a browser


def page_idle_s() -> float:
    """Return how long a page is served without a browser, in s; raise UsageError."""
    text = os.environ.get(IDLE_VARIABLE) or DEFAULT_MINUTES
    return 60 * arguments.number(IDLE_VARIABLE, text, 0.01, LONGEST_MINUTES)


def start_page(folder: Path) -> None:
    """Serve the page of a run that starts now, and open it; a failure is a warning in one line."""
    from offload.documents import live
    from offload.engine.progress import announce_run

    seconds = page_idle_s()
    announce_run(folder)
    try:
        page = live.open_run(folder, seconds)
    except (UserError, OSError) as error:
        print(f"warning: {error}", file=sys.stderr)
        return
    show_page(page.url)


class NoRows:
    """Shows nothing: there is no page."""

    def send(self, row: Sequence[str]) -> None:
        pass

    def close(self, lines: Sequence[str] = ()) -> None:
        pass


def start_rows_page(title: str, head: Sequence[str], is_opened: bool) -> Rows:
    """Serve the page of rows, and open it; a failure is a warning in one line."""
    from offload.documents.live import RowsPipe

    if not is_opened:
        return NoRows()
    try:
        rows = RowsPipe(title, head, page_idle_s())
    except (UserError, OSError) as error:
        print(f"warning: {error}", file=sys.stderr)
        return NoRows()
    show_page(rows.url)
    return rows


def show_page(url: str) -> None:
    """Print the address of a page, and open it in a browser if this session has one."""
    print(f"live page: {url}", file=sys.stderr, flush=True)
    if not open_in_browser(url):
        print("warning: no browser was found: open the address in one", file=sys.stderr)


def open_in_browser(url: str) -> bool:
    """Open an address in a browser; return whether one was found that needs no terminal.

    `webbrowser` waits for the end of some browsers, such as BROWSER='chromium %s', and a browser
    inherits its streams: it would keep a pipe of this command open. So a process of its own, in
    another session, opens it.
    """
    if sys.platform != "darwin" and not any(map(os.environ.get, GRAPHICAL)):
        return False
    try:
        opening = subprocess.Popen(
            [sys.executable, "-c", OPEN, url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    waiting = threading.Thread(target=opening.wait, daemon=True)  # reaps it whenever it ends
    waiting.start()
    waiting.join(BROWSER_S)
    return waiting.is_alive() or opening.returncode == 0
