"""A document as text of at most 100 columns."""

from __future__ import annotations

import re
import textwrap

from offload.documents import Document, text_table
from offload.documents.text_table import UNBREAKABLE, WIDTH, Line

QUOTED = re.compile(r"'[^']*'")
INDENT = "    "


def render(found: Document, width: int = WIDTH) -> str:
    """Return the headline, the table, and a paragraph in each further line."""
    parts = [text_table.wrapped(found.headline, width)]
    if found.rows:
        lines = [Line(row) for row in found.rows]
        table = text_table.render(found.head, lines, numbers=found.numbers)
        parts += ["", table, ""]
    for each in found.paragraphs:
        words = " ".join(each.sentences)
        parts.append(text_table.wrapped(f"{each.title}: {words}" if each.title else words, width))
    if found.command is not None:
        line = f"Next: {found.command.title}: {found.command.line}"
        if len(line) > width:
            line = f"Next: {found.command.title}:\n{wrapped_command(found.command.line, width)}"
        parts.append(line)
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
