"""Tables of at most 100 columns, as text for a terminal or as reStructuredText."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 100  # columns of a terminal
RST = "rst"  # the other style is "simple"
GAP = 2  # spaces between columns
COMMAND = re.compile(r"\boffload [a-z_]+(?: (?:\S*[=/]\S*|[A-Z0-9][\w-]*))*")
UNBREAKABLE = "\u00a0"  # a space where no line ends
MARK = 4  # characters of the backquotes around a literal


@dataclass(frozen=True)
class Line:
    """The cells of a row, and a `detail` below them that may be as wide as the whole table."""

    cells: Sequence[str]
    detail: str = ""


def render(head: Sequence[str], lines: Sequence[Line], style: str = "simple") -> str:
    """Render lines: the first column left-aligned (a literal in rst), the others right-aligned."""
    table = [head, *(_cells(line, style) for line in lines)]
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    bar = "  ".join(("=" if style == RST else "-") * width for width in widths)
    text = [_aligned(head, widths), bar]
    for line, cells in zip(lines, table[1:], strict=True):
        text.append(_aligned(cells, widths))
        if line.detail:
            text += _detail(line.detail, widths, style)
    if style != RST:
        return "\n".join(text)
    # The border below a row also shows which of its columns are joined.
    bottom = text.pop().replace("-", "=") if lines and lines[-1].detail else bar
    return "\n".join([bar, *text, bottom])


def first_column(others: Sequence[Sequence[str]]) -> int:
    """Return the maximum width of the first column in any style, if the `others` follow it."""
    used = sum(GAP + max((len(cell) for cell in column), default=0) for column in others)
    return WIDTH - used - MARK


def shortened(label: str, most: int, kept: str = "") -> str:
    """Shorten a label at its start, because the end of a path is more specific.

    `kept` is a prefix that is not shortened, such as the name of the server of a case.

    >>> shortened("threads,shop.pricing:quote", 20, "threads,")
    'threads,...ing:quote'
    """
    if len(label) <= most:
        return label
    return f"{kept}...{label[len(kept) + 3 - most :]}"


def paragraphs(lines: Sequence[str], style: str = "simple") -> str:
    """Render each item as a separate paragraph, such as the definitions below a table."""
    mark = "| " if style == RST else ""
    return "\n".join(_wrapped(line, mark, "  ") for line in lines)


def listing(items: Sequence[str]) -> str:
    """Render items as a list, the same in both styles."""
    return "\n".join(_wrapped(item, "* ", "  ") for item in items)


def wrapped(text: str, width: int = WIDTH) -> str:
    """Wrap a paragraph, but not within a command: it is copied as one line."""
    return _wrapped(text, "", "", width)


def _wrapped(text: str, first: str, further: str, width: int = WIDTH) -> str:
    filled = textwrap.fill(
        COMMAND.sub(lambda found: found[0].replace(" ", UNBREAKABLE), text),
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return filled.replace(UNBREAKABLE, " ")


def _cells(line: Line, style: str) -> list[str]:
    first, *others = line.cells
    return [f"``{first}``" if style == RST else first, *others]


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    rest = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
    return "  ".join([f"{first:{widths[0]}}", *rest]).rstrip()


def _detail(detail: str, widths: Sequence[int], style: str) -> list[str]:
    """Return the lines of a detail; in rst a line of hyphens ends a row over all columns."""
    if style != RST:
        return [_wrapped(detail, "  ", "  ")]
    whole = sum(widths) + GAP * (len(widths) - 1)
    indent = " " * (widths[0] + GAP)  # a further line of a row has an empty first column
    plain = detail.replace("@", r"\@")  # else server@python would be an e-mail address
    return [_wrapped(plain, "", indent), "-" * whole]
