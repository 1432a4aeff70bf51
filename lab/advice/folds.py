"""The checks of the advice that were measured, as a table: data/advice.jsonl.xz.

Each row has a line of a file that check_advice wrote: a record, an answer, a plan or a model. The
records have all figures from which the pages are rendered; what is omitted is that of the load
tools, histograms of short windows, and fields without a value. The commit that lab/README.rst names
has the complete records.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from lab import DATA
from lab.advice import evaluation
from lab.advice.evaluation import Evaluation

TABLE = DATA / "advice.jsonl.xz"


def evaluate() -> Iterator[tuple[str, Evaluation]]:
    """Yield the name and the evaluation of each set of functions in the table."""
    with TemporaryDirectory(prefix="advice-") as name:
        for fold in _unpack(Path(name)):
            yield fold, evaluation.read(Path(name, fold))


def _unpack(folder: Path) -> list[str]:
    """Write the files of each set into a folder of its name; return the names."""
    contents: dict[tuple[str, str], list[str]] = {}
    with lzma.open(TABLE, "rt") as table:
        for row in map(json.loads, table):
            contents.setdefault((row["fold"], row["file"]), []).append(json.dumps(row["value"]))
    for (fold, file), lines in contents.items():
        path = folder / fold / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return [*dict.fromkeys(fold for fold, _ in contents)]
