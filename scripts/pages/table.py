"""Update the tables between two markers of documents from stored figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from offload.registry import catalog


def main(
    arguments: list[str],
    documents: Mapping[Path, Callable[[], str]],
    figures: Path,
    names: Collection[str],
    measure: Callable[[str], None],
) -> int | str:
    """Measure the names in `arguments`, or all names, and update the tables after each.

    With the argument - it measures nothing and renders the stored figures; with --check it only
    compares. Return the exit code or an error message; raise UsageError for unknown names.
    """
    stale = [page for page, text in _updated(documents).items() if page.read_text() != text]
    if arguments == ["--check"]:
        names_of = ", ".join(map(str, stale))
        return f"{names_of}: not what the stored figures show: run make readme" if stale else 0
    measured = [] if arguments == ["-"] else arguments or [*names]
    for name in measured:
        if name not in names:
            raise catalog.unknown("the table", name, [*names])
    for name in ["", *measured]:
        if name:
            measure(name)
        for page, text in _updated(documents).items():
            page.write_text(text)
    print(f"written: {', '.join(map(str, [figures, *documents] if measured else documents))}")
    return 0


def _updated(documents: Mapping[Path, Callable[[], str]]) -> dict[Path, str]:
    return {page: between(page.read_text(), "table", [text()]) for page, text in documents.items()}


def between(text: str, mark: str, contents: Iterable[str]) -> str:
    """Replace each text between `mark`-begin and `mark`-end by the next of `contents`."""
    pattern = re.compile(rf"(?<=\.\. {mark}-begin\n\n).*?(?=\n\n\.\. {mark}-end)", re.DOTALL)
    remaining = iter(contents)
    return pattern.sub(lambda match: next(remaining), text)
