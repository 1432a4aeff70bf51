"""Text of at most 100 columns: a document, its tables and its paragraphs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from offload.documents import Document

WIDTH = 100  # columns of a terminal
GAP = 2  # spaces between columns
COMMAND = re.compile(r"\boffload [a-z_]+(?: (?:\S*[=/]\S*|[A-Z0-9][\w-]*))*")
QUOTED = re.compile(r"'[^']*'")
UNBREAKABLE = "\u00a0"  # a space where no line ends
INDENT = "    "  # of the second line of a command
LITERAL_INDENT = 4  # spaces before the lines of a literal block


def render(found: Document, width: int = WIDTH) -> str:
    """Return the headline, the table, a paragraph in each further line, and the code."""
    parts = [wrapped(found.headline, width)]
    if found.rows:
        lines = [TableLine(row) for row in found.rows]
        table = render_table(found.head, lines, numbers=found.numbers)
        parts += ["", table, ""]
    for each in found.paragraphs:
        words = " ".join(each.sentences)
        parts.append(wrapped(f"{each.title}: {words}" if each.title else words, width))
    if found.command is not None:
        line = f"Next: {found.command.title}: {found.command.line}"
        if len(line) > width:
            line = f"Next: {found.command.title}:\n{wrapped_command(found.command.line, width)}"
        parts.append(line)
    if found.code is not None:
        parts += ["", found.code]
    return "\n".join(parts)


def wrapped_command(line: str, width: int) -> str:
    """Wrap a command between its words, so that it can be pasted into a shell."""
    parts = textwrap.wrap(
        QUOTED.sub(lambda found: found[0].replace(" ", UNBREAKABLE), line),
        width - 2,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(parts).replace(UNBREAKABLE, " ")


@dataclass(frozen=True)
class TableLine:
    """The cells of a row, and a `detail` below them that may be as wide as the whole table."""

    cells: Sequence[str]
    detail: str = ""


def render_table(
    head: Sequence[str],
    lines: Sequence[TableLine],
    left: int = 1,
    numbers: Collection[int] | None = None,
) -> str:
    """Render lines: columns of numbers right-aligned, by default all but the first `left`."""
    right = range(left, len(head)) if numbers is None else numbers
    table = [head, *(line.cells for line in lines)]
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    text = [_aligned(head, widths, right), "  ".join("-" * width for width in widths)]
    for line in lines:
        text.append(_aligned(line.cells, widths, right))
        if line.detail:
            text.append(_wrapped(line.detail, "  ", "  "))
    return "\n".join(text)


def first_column(others: Sequence[Sequence[str]]) -> int:
    """Return the maximum width of the first column if the `others` follow it, also if indented."""
    used = sum(GAP + max((len(cell) for cell in column), default=0) for column in others)
    return WIDTH - used - LITERAL_INDENT


def shortened(label: str, most: int, kept: str = "") -> str:
    """Shorten a label at its start, because the end of a path is more specific.

    `kept` is a prefix that is not shortened, such as the name of the server of a case.

    >>> shortened("threads/shop.pricing:quote", 20, "threads/")
    'threads/...ing:quote'
    """
    if len(label) <= most:
        return label
    return f"{kept}...{label[len(kept) + 3 - most :]}"


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    aligned = [
        f"{cell:{'>' if number in right else '<'}{width}}"
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return (" " * GAP).join(aligned).rstrip()


def literal(text: str) -> str:
    """Mark a text as a literal block of reStructuredText."""
    return f"::\n\n{textwrap.indent(text, ' ' * LITERAL_INDENT)}"


def paragraphs(lines: Sequence[str]) -> str:
    """Render each item as a separate paragraph, such as the definitions below a table."""
    return "\n".join(_wrapped(line, "", "  ") for line in lines)


def listing(items: Sequence[str]) -> str:
    """Render items as a list."""
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
