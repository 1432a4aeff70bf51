"""The table of a document: what stands between two marks, made of figures that are kept."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import _script  # noqa: F401 - by which the project is found

from offload.registry import catalog


def main(
    words: list[str],
    document: Path,
    figures: Path,
    text: Callable[[], str],
    names: Collection[str],
    measure: Callable[[str], None],
) -> int | str:
    """Measure what `words` name, or all, with the table current before and after each.

    - measures nothing, and --check only compares. Give the exit code, or what is wrong. Raises
      UsageError for other words.
    """
    after = between(before := document.read_text(), "table", [text()])
    if words == ["--check"]:
        return f"{document} is not as its figures are: {sys.argv[0]} -" if after != before else 0
    measured = [] if words == ["-"] else words or [*names]
    for word in measured:
        if word not in names:
            raise catalog.unknown("the table", word, [*names])
    document.write_text(after)
    for name in measured:
        measure(name)
        document.write_text(between(document.read_text(), "table", [text()]))
    print(f"written: {figures}, {document}" if measured else f"written: {document}")
    return 0


def between(text: str, mark: str, contents: Iterable[str]) -> str:
    """Give a text with what stands between `mark`-begin and `mark`-end replaced, in turn."""
    pattern = re.compile(rf"(?<=\.\. {mark}-begin\n\n).*?(?=\n\n\.\. {mark}-end)", re.DOTALL)
    remaining = iter(contents)
    return pattern.sub(lambda match: next(remaining), text)
