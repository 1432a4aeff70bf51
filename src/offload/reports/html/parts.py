"""The parts of a page: cells, tables, panels (a picture beside its table), and sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload import units
from offload.documents.pictures import Picture
from offload.units import percent

UNKNOWN = "-"
LONG = 40  # characters, above which a text needs a wide column
DIGITS = 6  # significant digits of a number that rows are sorted by


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and its number (None: it has none), by which rows are sorted."""

    text: str
    value: float | None = None

    @property
    def key(self) -> str | None:
        """The number to sort by: empty if it equals the text, None if there is no number."""
        if self.value is None:
            return None
        key = f"{self.value:.{DIGITS}g}"
        return "" if key == self.text else key

    @property
    def is_long(self) -> bool:
        """Whether the text needs a wide column."""
        return len(self.text) > LONG


@dataclass(frozen=True)
class Table:
    """A table with a unique `caption`; the first cell of each row is the header of the row."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    definitions: tuple[str, ...] = ()

    @property
    def numeric(self) -> frozenset[int]:
        """The columns that have numbers."""
        columns = range(len(self.head))
        return frozenset(n for n in columns if any(row[n].value is not None for row in self.rows))


@dataclass(frozen=True)
class Panel:
    """A table with its picture, and the command that repeats the measurement."""

    table: Table
    picture: Picture | None = None
    command: str | None = None


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `name` is its id."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def text(value: object) -> Cell:
    """Return a cell of text."""
    return Cell(UNKNOWN if value is None or value == "" else str(value))


def number(shown: str, value: float | None) -> Cell:
    """Return a cell that shows a number as a text; a dash if it is unknown."""
    return Cell(UNKNOWN if value is None else shown, value)


def count(value: int | None) -> Cell:
    """Return a cell of a whole number."""
    return Cell(UNKNOWN if value is None else str(value), value)


def share(value: float | None, digits: int = 0) -> Cell:
    """Return a cell of a share in percent."""
    return number(percent(value or 0.0, digits), value)


def rate(value: float | None) -> Cell:
    """Return a cell of a rate in requests/s."""
    return number(units.number(value or 0.0), value)


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    definitions: Sequence[str] = (),
) -> Table:
    """Return a table; leave out columns without values, and their definitions."""
    kept = [0, *(n for n in range(1, len(head)) if any(row[n].text != UNKNOWN for row in rows))]
    absent = tuple(f"{name}:" for n, name in enumerate(head) if n not in kept)
    return Table(
        caption,
        tuple(head[n] for n in kept),
        tuple(tuple(row[n] for n in kept) for row in rows),
        tuple(line for line in definitions if not line.startswith(absent)),
    )
