"""Update the table between two markers of a document from stored figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from offload.registry import catalog


def main(
    arguments: list[str],
    document: Path,
    figures: Path,
    text: Callable[[], str],
    names: Collection[str],
    measure: Callable[[str], None],
) -> int | str:
    """Measure the names in `arguments`, or all names, and update the table after each.

    With the argument - it measures nothing and renders the stored figures; with --check it only
    compares. Return the exit code or an error message; raise UsageError for unknown names.
    """
    after = between(before := document.read_text(), "table", [text()])
    if arguments == ["--check"]:
        return f"{document} does not match its figures: run make readme" if after != before else 0
    measured = [] if arguments == ["-"] else arguments or [*names]
    for name in measured:
        if name not in names:
            raise catalog.unknown("the table", name, [*names])
    document.write_text(after)
    for name in measured:
        measure(name)
        document.write_text(between(document.read_text(), "table", [text()]))
    print(f"written: {figures}, {document}" if measured else f"written: {document}")
    return 0


def between(text: str, mark: str, contents: Iterable[str]) -> str:
    """Replace each text between `mark`-begin and `mark`-end by the next of `contents`."""
    pattern = re.compile(rf"(?<=\.\. {mark}-begin\n\n).*?(?=\n\n\.\. {mark}-end)", re.DOTALL)
    remaining = iter(contents)
    return pattern.sub(lambda match: next(remaining), text)
