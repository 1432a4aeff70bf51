"""Print the answer of a finished run, and write its report.

The plan names the study, so a resumed run has the same output as its first command. Runs of
suites, gates and advice are not studies yet: `OTHERS` has their answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offload.cli import live_page, output, plan_run, run_reports
from offload.errors import GateError, UndecidedError, UserError
from offload.registry import places
from offload.studies import Run, Study, studies

if TYPE_CHECKING:
    from offload.bench.experiments.gate import GateResult
    from offload.documents import Document
    from offload.engine.plan import Plan
    from offload.engine.record import Record


def print_answer(plan: Plan, folder: Path, records: Sequence[Record], format: str) -> None:  # noqa: A002
    """Print the answer of a finished run as text or JSON; raise the error of its exit code."""
    run = Run(folder, plan, records)
    if plan.suite in studies():
        _print_study(studies()[plan.suite], run, format)
        return
    write_report(folder)
    OTHERS.get(plan.suite, _suite)(run, format)


def _print_study(study: Study[Any, Any], run: Run, format: str) -> None:  # noqa: A002
    from offload.documents.text import render
    from offload.errors import printable

    study.complete(run, output.print_progress)
    write_report(run.folder)
    result = study.result(run)
    if format == "json":
        print(json.dumps(study.values(result), indent=2))
    else:
        print(printable(f"{render(study.document(result))}\nRecords: {run.folder}"))
    study.check(result)


def write_report(folder: Path) -> None:
    """Write a run's report.html and print its path; a failure is a warning in one line."""
    try:
        from offload.reports.html import page

        print(f"report: {page.write_report([folder], documents([folder]))}", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 - a run must not fail because of its report
        what = " ".join(str(error).split()) or type(error).__name__
        print(f"warning: no report.html: {what}", file=sys.stderr)


def open_report(folders: Sequence[Path], is_opened: bool) -> None:
    """Write the report of runs in HTML, print its path, and open it; raise UserError."""
    from offload.reports.html import page

    written = page.write_report(folders, documents(folders))
    print(written)
    if is_opened and not live_page.open_in_browser(written.absolute().as_uri()):
        print(f"warning: no browser was found: open {written} in one", file=sys.stderr)


def documents(folders: Sequence[Path]) -> Mapping[Path, Document]:
    """Return the documents of runs of studies and of advice, by folder."""
    with places.full_names():
        known = {folder: _document(folder) for folder in folders}
    return {folder: found for folder, found in known.items() if found is not None}


def _document(folder: Path) -> Document | None:
    from offload.documents import Document
    from offload.engine import journal
    from offload.studies.advise import answer
    from offload.studies.advise import study as advice

    if (plan := journal.find_plan(folder)) is None:
        return None
    records = journal.read_planned(folder, plan)
    if (found := run_reports.answer(Run(folder, plan, records))) is not None:
        return found[0]
    if plan.suite != ADVISE:
        return None
    try:
        return answer.document(advice.load(folder, plan, records))
    except UserError as error:  # a file is missing
        return Document(f"{error.what}.", has_verdict=False)


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


def _suite(run: Run, style: str) -> None:
    plan_run.show_results(run.records, style)


def _gate(run: Run, style: str) -> None:
    from offload.bench.experiments import gate

    with run_reports.records_of_others(run.folder.name):
        print_gate(gate.evaluate(run.plan, run.records, run.folder), style)


def _advice(run: Run, style: str) -> None:
    from offload.cli import advice
    from offload.studies.advise import study

    found = study.load(run.folder, run.plan, run.records)
    advice.show(found, run.folder, style)
    advice.check(found)


ADVISE = "advise"
OTHERS: Mapping[str, Callable[[Run, str], None]] = {ADVISE: _advice, "gate": _gate}
