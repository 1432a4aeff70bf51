"""The table of a document: what stands between two marks, made of figures that are kept."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for whoever imports this: the project is not installed


def main(
    document: Path, text: Callable[[], str], names: Iterable[str], measure: Callable[[str], None]
) -> int | str:
    """Measure what the command line names, or all, with the table current before and after each.

    - measures nothing, and --check only compares. Give the exit code, or what is wrong.
    """
    words = sys.argv[1:]
    after = between(before := document.read_text(), "table", [text()])
    if words == ["--check"]:
        return f"{document} is not as its figures are: {sys.argv[0]} -" if after != before else 0
    document.write_text(after)
    for name in [] if words == ["-"] else words or names:
        measure(name)
        document.write_text(between(document.read_text(), "table", [text()]))
    return 0


def between(text: str, mark: str, contents: Iterable[str]) -> str:
    """Give a text with what stands between `mark`-begin and `mark`-end replaced, in turn."""
    pattern = re.compile(rf"(?<=\.\. {mark}-begin\n\n).*?(?=\n\n\.\. {mark}-end)", re.DOTALL)
    remaining = iter(contents)
    return pattern.sub(lambda match: next(remaining), text)
