"""The document that people see: a headline, sentences, a table and charts, without any layout.

A study writes it from the records of its run; renderers know no study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Paragraph:
    """Sentences under a title."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Spot:
    """A point of a chart: its place, its value in words, its interval, and its name if shown."""

    x: float
    y: float
    words: str
    low: float | None = None
    high: float | None = None
    name: str = ""


@dataclass(frozen=True)
class Curve:
    """A line of a chart through (x, y), with a name."""

    name: str
    places: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """Values over a number; the titles of the axes have the units.

    `rule` is the x of a vertical line, such as that of a knee.
    """

    title: str
    x_title: str
    y_title: str
    spots: tuple[Spot, ...]
    curves: tuple[Curve, ...] = ()
    about: str = ""
    rule: float | None = None


GOOD, BAD, UNCLEAR, PLAIN = "good", "bad", "unclear", "plain"  # tones


@dataclass(frozen=True)
class Finding:
    """A sentence with the case that it is about and the figure that it follows from."""

    sentence: str
    name: str = ""
    figure: str = ""
    tone: str = PLAIN


@dataclass(frozen=True)
class Number:
    """A number in a table, and how it is shown; None is unknown."""

    shown: str
    value: float | None


@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval, its words, and the name of what is compared.

    `published` is the ratio that was published, and its words.
    """

    name: str
    words: str
    value: float
    low: float | None = None
    high: float | None = None
    tone: str = PLAIN
    published: tuple[float, str] | None = None


@dataclass(frozen=True)
class Ratios:
    """A chart of ratios, each in a line; `sides` say what is below and above 1."""

    title: str
    ratios: tuple[Ratio, ...]
    about: str
    sides: tuple[str, str] | None = None


@dataclass(frozen=True)
class Exhibit:
    """A table of a page with its chart, in the section `section`; `about` explains columns."""

    section: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | Number, ...], ...]
    about: tuple[str, ...] = ()
    chart: Ratios | None = None


@dataclass(frozen=True)
class Command:
    """A command for a shell that does what is advised, with a title such as "Serve it"."""

    title: str
    line: str


@dataclass(frozen=True)
class Document:
    """What a study answers: `headline`, a table of `head` and `rows`, paragraphs and charts.

    The columns of the table in `numbers` have numbers; by default all but the first. A paragraph
    without a title stands in a line of its own. `has_verdict` is False if the measurement was
    disturbed, and `is_good` if the answer is not what is wanted. A page also has the findings and
    the exhibits, and with `shows_cases` the figures of each case. Without a headline the tables of
    the cases are the answer. `code` is text that follows the answer verbatim, such as a program.
    """

    headline: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    paragraphs: tuple[Paragraph, ...] = ()
    charts: tuple[Chart, ...] = ()
    command: Command | None = None
    has_verdict: bool = True
    shows_cases: bool = True
    numbers: Sequence[int] | None = None
    is_good: bool = True
    findings: tuple[Finding, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    code: str | None = None


def lines(*words: str) -> tuple[Paragraph, ...]:
    """Return each text as a paragraph without a title."""
    return tuple(Paragraph("", (each,)) for each in words)
