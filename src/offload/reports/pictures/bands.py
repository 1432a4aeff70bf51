"""A picture of values as dots with intervals: a band for each case, a line for each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offload.reports.pictures import texts
from offload.reports.pictures.axis import Axis
from offload.reports.pictures.style import BLUE, CONFIG, GREY, SHAPES, SMALL, TEXT
from offload.reports.pictures.texts import Key, Text

CIRCLE, DIAMOND, STROKE = SHAPES[0], SHAPES[1], "M0,-0.9V0.9"

Layer = dict[str, object]


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
    def spec(self) -> dict[str, object]:
        """The specification for Vega-Lite."""
        top, placed = self._top, [*self._placed()]
        height = placed[-1][0] + self._height(placed[-1][1]) if placed else top
        words = [*self._head_texts(), *self._labels(placed), *self._figures(placed)]
        words += [
            Text(0, height + FOOT + FOOT_LINE * number, line)
            for number, line in enumerate(self.feet, start=1)
        ]
        return {
            "width": self.layout.width,
            "height": height,
            "padding": {
                "left": 0,
                "right": 0,
                "top": 0,
                "bottom": FOOT + (FOOT_LINE * len(self.feet) + 6 if self.feet else 0),
            },
            "autosize": "none",
            "config": CONFIG,
            "layer": [
                *texts.legend(self.keys, self.layout.width, 6 + 24 * bool(self.heads)),
                *self._ends(top),
                *self._rules(top, height),
                self._intervals(placed),
                self._marks(placed),
                *texts.layers(words),
            ],
        }

    @property
    def _top(self) -> int:
        """The y position of the first band, below the heads, the legend and the ends."""
        heads = 24 + FOOT_LINE * len(self.heads) if self.heads else 0
        legend = texts.legend_height(self.keys, self.layout.width)
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

    def _x(self, field: str) -> dict[str, object]:
        """Return the encoding of a value."""
        axis = {
            "values": list(self.axis.ticks),
            "labelExpr": self.axis.label_expression,
            "labelOverlap": "parity",
            "labelFlush": self.layout is not WIDE,
            "title": None,
            "orient": "bottom",
            "grid": False,  # grid lines would also cross the head of the picture
        }
        scale = {**self.axis.scale, "range": list(self.layout.plot)}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    def _ends(self, top: int) -> Iterator[Layer]:
        if self.ends is None or self.reference is None:
            return
        first, last = self.layout.plot
        is_narrow = self.layout.figure is None  # then the texts are at the edges, else beside x
        sides = (
            (self.ends.below, *((first, "left", 0) if is_narrow else (None, "right", -10))),
            (self.ends.above, *((last, "right", 0) if is_narrow else (None, "left", 10))),
        )
        for (words, at, align, dx), colour in zip(sides, self.ends.colours, strict=True):
            mark = {"type": "text", "align": align, "dx": dx, "fill": colour, "fontSize": TEXT}
            x = self._x("x") if at is None else {"value": at}
            yield {
                "data": {"values": [{"x": self.reference, "words": words}]},
                "mark": {**mark, "aria": False},
                "encoding": {"x": x, "y": {"value": top - 10}, "text": {"field": "words"}},
            }

    def _rules(self, top: int, height: int) -> Iterator[Layer]:
        """Yield a faint vertical line at each tick, and a clear one at the reference."""
        lines: list[tuple[Sequence[float], dict[str, object]]]
        lines = [(self.axis.ticks, {"strokeOpacity": 0.3})]
        lines += [] if self.reference is None else [([self.reference], {"strokeWidth": 2})]
        for places, look in lines:
            yield {
                "data": {"values": [{"x": place} for place in places]},
                "mark": {"type": "rule", "stroke": GREY, "aria": False, **look},
                "encoding": {"x": self._x("x"), "y": {"value": top}, "y2": {"value": height}},
            }

    def _intervals(self, placed: Sequence[tuple[int, Band]]) -> Layer:
        values = [
            {"low": line.low, "high": line.high, "y": y, "colour": line.marks[0].colour}
            for _, y, line in self._lines(placed)
            if line.low is not None and line.high is not None
        ]
        return {
            "data": {"values": values},
            "mark": {"type": "rule", "strokeWidth": 4, "aria": False},
            "encoding": {
                "x": self._x("low"),
                "x2": {"field": "high"},
                "y": texts.Y,
                "stroke": {"field": "colour", "type": "nominal", "scale": None},
            },
        }

    def _marks(self, placed: Sequence[tuple[int, Band]]) -> Layer:
        values = [
            {"x": m.value, "y": y, "shape": m.shape, "colour": m.colour, "title": m.title}
            for _, y, line in self._lines(placed)
            for m in line.marks
        ]
        colour = {"field": "colour", "type": "nominal", "scale": None}
        return {
            "data": {"values": values},
            "mark": {"type": "point", "size": texts.DOT, "opacity": 1, "strokeWidth": 2},
            "encoding": {
                "x": self._x("x"),
                "y": texts.Y,
                "shape": {"field": "shape", "type": "nominal", "scale": None},
                "fill": colour,
                "stroke": colour,
                "description": {"field": "title"},
            },
        }

    def _head_texts(self) -> Iterator[Text]:
        for number, line in enumerate(self.heads):
            is_first = number == 0
            yield Text(0, 20 + FOOT_LINE * number, line, 17 if is_first else SMALL, is_first)

    def _labels(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Text]:
        layout = self.layout
        for top, band in placed:
            is_heading = not band.lines
            y = top + layout.label + (6 if is_heading else 0)
            yield Text(0, y, band.label, layout.size, is_heading or layout.is_bold)
            yield Text(0, top + layout.detail, band.detail)

    def _figures(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Text]:
        layout = self.layout
        for top, y, line in self._lines(placed):
            if layout.figure is None:
                label_y = top + layout.label
                yield Text(layout.width, label_y, line.text, layout.size, ends_at_x=True)
            elif layout.is_bold:
                colour = line.marks[0].colour
                yield Text(layout.figure, y + 5, line.figure, layout.size, True, colour)
                yield Text(layout.figure + 60, y + 5, line.detail)
            else:
                yield Text(layout.figure, y + 4, line.text)
