"""Reports on runs, which are folders in results/."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offload.errors import StorageError, UsageError, UserError
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


@contextmanager
def records_of_others(which: str) -> Iterator[None]:
    """Raise StorageError for an error that is caused by the values in damaged or edited records.

    `which` names the runs that have these records.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        what = f"{which} cannot be reported: {type(error).__name__}: {str(error)[:100]!r}"
        raise StorageError(what, "its records have values that no run has") from error


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
