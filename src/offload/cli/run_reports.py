"""Reports on runs, which are folders in results/."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offload.cli import live_page
from offload.errors import StorageError, UsageError, UserError
from offload.registry import places
from offload.studies import Run, studies

if TYPE_CHECKING:
    from offload.documents import Document


def find(names: Sequence[str]) -> list[Path]:
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


def show(found: Sequence[Path], form: str, wide: bool) -> None:
    """Print the results of runs; raise UserError."""
    from offload.documents import results_files
    from offload.documents.rows import rows
    from offload.documents.text import render
    from offload.engine import journal
    from offload.errors import printable
    from offload.reports.gil import effects, effects_svg

    if form == "svg" and len(found) > 1:
        raise UsageError("a picture shows one run", "use run= or format=html")
    texts, objects = [], []
    for folder in found:
        records = journal.read_planned(folder)
        if not records:
            what = f"{folder} has no readable record"
            raise StorageError(what, "choose another run by report:RUN")
        plan = journal.find_plan(folder)
        answered = None if plan is None else answer(Run(folder, plan, records))
        if form == "json":
            own = {} if answered is None else {"answer": answered[1]}
            objects.append({**own, **results_files.run_values(records)})
        elif form == "svg":
            texts.append(effects_svg.svg(effects.effects(rows(records))))
        else:
            head = f"{folder.name}\n{'=' * len(folder.name)}\n\n" if len(found) > 1 else ""
            if answered is not None:
                head += f"{render(answered[0])}\n\n"
            texts.append(f"{head}{results_files.tables(records, wide, answered is not None)}")
    if form == "json":
        print(json.dumps(objects if len(found) > 1 else objects[0], indent=2))
    print(printable("\n".join(texts)), end="")


def answer(run: Run) -> tuple[Document, Any] | None:
    """Return the document and the values of a run of a study; None for another run.

    Without a result the document has the reason, and there are no values.
    """
    from offload.documents import Document

    if (study := studies().get(run.plan.suite)) is None:
        return None
    try:
        result = study.result(run)
    except UserError as error:  # a case has no rate
        return Document(f"{error.what}.", has_verdict=False), None
    return study.document(result), study.values(result)


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
    from offload.studies.advise import answer as advice_answer
    from offload.studies.advise import study as advice

    if (plan := journal.find_plan(folder)) is None:
        return None
    records = journal.read_planned(folder, plan)
    if (found := answer(Run(folder, plan, records))) is not None:
        return found[0]
    if plan.suite != "advise":
        return None
    try:
        return advice_answer.document(advice.load(folder, plan, records))
    except UserError as error:  # a file is missing
        return Document(f"{error.what}.", has_verdict=False)
