"""A picture of values as dots with intervals: a band for each case, a line for each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from offload.reports.pictures import drawing
from offload.reports.pictures.axis import Axis
from offload.reports.pictures.drawing import BLUE, LETTER, SHAPES, SMALL, TEXT

CIRCLE, DIAMOND = SHAPES[0], SHAPES[1]
ROW = 20  # px: the height of a row of the legend


@dataclass(frozen=True)
class Key:
    """An entry of the legend."""

    words: str
    shape: str
    colour: str


@dataclass(frozen=True)
class Mark:
    """A mark on the line of a value; `title` is the value as text."""

    value: float
    title: str
    shape: str = CIRCLE
    colour: str = BLUE


@dataclass(frozen=True)
class Line:
    """The marks of one value, a line from `low` to `high`, and the value as text beside them.

    `detail` follows the text: it is the interval as text.
    """

    marks: tuple[Mark, ...]
    figure: str = ""
    low: float | None = None
    high: float | None = None
    detail: str = ""

    @property
    def text(self) -> str:
        """The value and its detail."""
        return f"{self.figure} ({self.detail})" if self.detail else self.figure

    @property
    def values(self) -> list[float]:
        """All values that the axis must show."""
        ends = [end for end in (self.low, self.high) if end is not None]
        return [*(mark.value for mark in self.marks), *ends]


@dataclass(frozen=True)
class Band:
    """The drawing of one case; without lines it is a heading."""

    label: str
    lines: tuple[Line, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Ends:
    """Texts above both sides of the reference, which explain values there, and their colours."""

    below: str
    above: str
    colours: tuple[str, str]


@dataclass(frozen=True)
class Layout:
    """The positions of the parts of a band in px: x from the left edge, y from the top of the band.

    `plot` are the x positions of the ends of the axis. `label`, `line` and `detail` are the y
    positions of the label, the first line and the detail. `step` is the distance between lines, and
    `gap` the space below the last one. If the band has a detail, `more` is added above the first
    line. Figures start at `figure`; None: they end at the right edge, at the height of the label.
    `size` is the font size of labels and figures.
    """

    width: int
    plot: tuple[int, int]
    figure: int | None
    label: int
    line: int
    detail: int
    gap: int
    more: int = 0
    step: int = 17
    size: int = TEXT
    is_bold: bool = False


# The label and the figure above the line: for a phone, and beside a table.
NARROW = Layout(400, (8, 392), None, label=14, line=26, detail=29, gap=14, more=15)
# The same for several lines, each with its figure.
SEVERAL = Layout(400, (8, 246), 258, label=14, line=27, detail=29, gap=14, more=15)
# The label beside the line: for a page.
WIDE = Layout(860, (270, 680), 700, label=19, line=21, detail=35, gap=21, size=15, is_bold=True)
HEADING = 30  # px: the height of a heading
FOOT, FOOT_LINE = 26, 16  # px: the height of the axis, and of a line below it


@dataclass(frozen=True)
class Bands:
    """A picture of bands, with a vertical rule at `reference` and the texts of `ends` above it.

    `heads` are lines above the picture, the first one in bold; `feet` are lines below it.
    """

    bands: Sequence[Band]
    axis: Axis
    layout: Layout = NARROW
    keys: Sequence[Key] = ()
    reference: float | None = None
    ends: Ends | None = None
    heads: Sequence[str] = ()
    feet: Sequence[str] = ()

    @property
    def svg(self) -> Element:
        """The picture."""
        top, placed = self._top, [*self._placed()]
        height = placed[-1][0] + self._height(placed[-1][1]) if placed else top
        found = [
            *self._rules(top, height),
            *self._intervals(placed),
            *self._marks(placed),
            *self._legend(6 + 24 * bool(self.heads)),
            *self._ends(top),
            *self._head_texts(),
            *self._labels(placed),
            *self._figures(placed),
            *self._tick_labels(height),
        ]
        feet = enumerate(self.feet, start=1)
        found += [drawing.text(0, height + FOOT + FOOT_LINE * n, words) for n, words in feet]
        more = FOOT_LINE * len(self.feet) + 6 if self.feet else 0
        return drawing.svg(self.layout.width, height + FOOT + more, found)

    @property
    def _top(self) -> int:
        """The y position of the first band, below the heads, the legend and the ends."""
        heads = 24 + FOOT_LINE * len(self.heads) if self.heads else 0
        legend = ROW * len(_rows(self.keys, self.layout.width))
        return heads + legend + (30 if self.ends is not None else 0)

    def _placed(self) -> Iterator[tuple[int, Band]]:
        """Yield the bands with their y positions."""
        top = self._top
        for band in self.bands:
            yield top, band
            top += self._height(band)

    def _height(self, band: Band) -> int:
        if not band.lines:
            return HEADING
        lines = self.layout.step * (len(band.lines) - 1)
        return self._line_place(band) + lines + self.layout.gap

    def _line_place(self, band: Band) -> int:
        return self.layout.line + (self.layout.more if band.detail else 0)

    def _lines(self, placed: Sequence[tuple[int, Band]]) -> Iterator[tuple[int, int, Line]]:
        """Yield the y position of the band, that of the line, and the line, for each line."""
        for top, band in placed:
            for number, line in enumerate(band.lines):
                yield top, top + self._line_place(band) + self.layout.step * number, line

    def _x(self, value: float) -> float:
        return self.axis.place(value, *self.layout.plot)

    def _tick_labels(self, height: int) -> Iterator[Element]:
        width = self.layout.width
        for x, label in self.axis.labelled(*self.layout.plot):
            half = LETTER * len(label) / 2
            at = min(max(x, half), width - half)  # inside of the picture
            yield drawing.text(at, height + 18, label, anchor="middle")

    def _ends(self, top: int) -> Iterator[Element]:
        if self.ends is None or self.reference is None:
            return
        first, last = self.layout.plot
        at = self._x(self.reference)
        is_narrow = self.layout.figure is None  # then the texts are at the edges, else beside it
        below, above = self.ends.colours
        y = top - 10
        left, right = (
            ((first, "start"), (last, "end"))
            if is_narrow
            else (
                (at - 10, "end"),
                (at + 10, "start"),
            )
        )
        for (x, anchor), words, colour in (
            (left, self.ends.below, below),
            (right, self.ends.above, above),
        ):
            yield drawing.text(x, y, words, size=TEXT, colour=colour, anchor=anchor)

    def _rules(self, top: int, height: int) -> Iterator[Element]:
        """Yield a faint vertical line at each tick, and a clear one at the reference."""
        for tick in self.axis.ticks:
            x = self._x(tick)
            yield drawing.line((x, top), (x, height), opacity=0.3)
        if self.reference is not None:
            x = self._x(self.reference)
            yield drawing.line((x, top), (x, height), width=2.0)

    def _intervals(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        for _, y, line in self._lines(placed):
            if line.low is not None and line.high is not None:
                ends = (self._x(line.low), y), (self._x(line.high), y)
                yield drawing.line(*ends, line.marks[0].colour, 4.0)

    def _marks(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        for _, y, line in self._lines(placed):
            for each in line.marks:
                yield drawing.mark(self._x(each.value), y, each.shape, each.colour, each.title)

    def _legend(self, top: float) -> Iterator[Element]:
        """Yield the mark and the words of each entry of the legend."""
        for number, row in enumerate(_rows(self.keys, self.layout.width)):
            y = top + ROW * number
            for x, key in row:
                yield drawing.mark(x, y, key.shape, key.colour)
                yield drawing.text(x + 12, y + 4, key.words)

    def _head_texts(self) -> Iterator[Element]:
        for number, words in enumerate(self.heads):
            is_first = number == 0
            size = 17 if is_first else SMALL
            yield drawing.text(0, 20 + FOOT_LINE * number, words, size=size, is_bold=is_first)

    def _labels(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        layout = self.layout
        for top, band in placed:
            is_heading = not band.lines
            y, is_bold = top + layout.label + (6 if is_heading else 0), is_heading or layout.is_bold
            yield drawing.text(0, y, band.label, size=layout.size, is_bold=is_bold)
            if band.detail:
                yield drawing.text(0, top + layout.detail, band.detail)

    def _figures(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        layout = self.layout
        for top, y, line in self._lines(placed):
            if layout.figure is None:
                at = (layout.width, top + layout.label)
                yield drawing.text(*at, line.text, size=layout.size, anchor="end")
            elif layout.is_bold:
                look = {"size": layout.size, "colour": line.marks[0].colour, "is_bold": True}
                yield drawing.text(layout.figure, y + 5, line.figure, **look)  # type: ignore[arg-type]
                yield drawing.text(layout.figure + 60, y + 5, line.detail)
            else:
                yield drawing.text(layout.figure, y + 4, line.text)


def _rows(keys: Sequence[Key], width: int) -> list[list[tuple[float, Key]]]:
    """Return the entries of the legend in rows, each with its x position."""
    rows: list[list[tuple[float, Key]]] = []
    x = float(width)
    for key in keys:
        own = 22 + LETTER * len(key.words) + 14
        if not rows or x + own > width:
            rows.append([])
            x = 6.0
        rows[-1].append((x, key))
        x += own
    return rows
