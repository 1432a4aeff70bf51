"""The lines that hold the GIL, block the loop, wait or await: in words, and as values for JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Any

from offload.engine.application import HotLine, Place, Who
from offload.engine.hot_lines import WAITS
from offload.errors import escaped
from offload.units import percent

NO_LINE = "No line of your code was seen often: it awaits, or servers and libraries take the time."
# By what a line is doing. Engine's names of it are also those in records and JSON.
CLAUSES = {
    "holds the GIL": "holds the GIL for {share} of the time",
    "blocks the loop": "blocks the event loop for {share} of the time",
    "computes without the GIL": "computes without the GIL for {share} of the time",
    "waits": "waits: {share} of the time of the threads that run your code",
    "sleeps before a retry": "sleeps before a retry: {share} of the threads or tasks that run "
    "your code",
    "awaits": "awaits: {share} of the tasks that run your code",
    "keeps memory": "allocates {share} of the memory that stays in use",
}


def sentences(found: Who | None, named: Collection[HotLine | None] = ()) -> Iterator[str]:
    """Yield a sentence for each line, or why there is none; nothing if nobody asked for it.

    Lines that the reader knows, `named`, are left out.
    """
    if found is None:
        return
    if found.why is not None:
        yield f"Which of your lines wait or compute is unknown: {escaped(found.why)}."
    elif found.library is not None:
        yield f"Not called by a line of your code: {clause(found.library)}."
    elif not found.lines:
        yield NO_LINE
    for line in found.lines:
        if line not in named:
            yield f"{clause(line)}."


def clause(line: HotLine) -> str:
    """Return a line, what its function is for the application, and what it does."""
    does = CLAUSES.get(line.doing, "{share}").format(share=percent(line.share))
    return f"{place(line)} {does}"


def place(line: HotLine) -> str:
    """Return a line, and what its function is for the application."""
    context = "" if line.context in (None, "task") else f", {line.context}"
    return escaped(f"{line.function} ({line.file}:{line.line}{context})")


def at(line: HotLine | None) -> str:
    """Return where a line is, to stand behind a verb or a noun; empty if it is unknown."""
    if line is None:
        return ""
    place = f"{line.file}:{line.line}"
    is_module = line.function == "<module>"
    return escaped(f" at {place}" if is_module else f" in {line.function} ({place})")


def line_at(place: Place | None, share: float) -> HotLine | None:
    """Return a place, at which a share of the threads or tasks wait, as a line; None for none."""
    if place is None:
        return None
    return HotLine(place.function, place.file, place.line, share, WAITS)


def capitalized(text: str, line: HotLine | None = None) -> str:
    """Return a clause as the start of a sentence; the name of a function keeps its letters."""
    starts_with_name = line is not None and text.startswith(f"{escaped(line.function)} (")
    return text if starts_with_name else f"{text[0].upper()}{text[1:]}"


def values(found: Who | None) -> dict[str, Any]:
    """Return the values for JSON: `who` is empty if nothing was sampled or seen."""
    library = found.library if found else None
    return {
        "who": [asdict(line) for line in found.lines] if found else [],
        "who_library": None if library is None else asdict(library),
        "who_unavailable": found.why if found else None,
    }
