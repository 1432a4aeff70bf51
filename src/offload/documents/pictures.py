"""Draw pictures in SVG: shapes at positions in px, axes, bands of dots, and curves in a plane.

`Bands` and `plane_svg` draw the two kinds of pictures that reports have.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from offload.documents import Curve, Spot
from offload.errors import printable

# Medium lightness: visible on white and on black. The style of a page may replace them.
GREY, BLUE, ORANGE, GREEN, PURPLE, RED = (
    "#777777",
    "#2f7fe0",
    "#cf6a0a",
    "#1f9254",
    "#8b63d6",
    "#d1495b",
)
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
FONT = "-apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
SMALL, TEXT = 12, 13  # px


@dataclass(frozen=True)
class Picture:
    """A picture in SVG, and its title and its description for screen readers."""

    svg: Element
    title: str
    description: str = ""


def inline_pictures(pictures: Sequence[Picture]) -> list[str]:
    """Return pictures as elements of one HTML page."""
    return [
        _with_titles(each, f"picture-{number}") for number, each in enumerate(pictures, start=1)
    ]


def standalone_picture(picture: Picture) -> str:
    """Return a picture as a separate file."""
    return f"{_with_titles(picture, None)}\n"


def _with_titles(picture: Picture, name: str | None) -> str:
    """Return the text of a picture with its title and its description, with ids for its page."""
    root = Element(picture.svg.tag, picture.svg.attrib)
    if name is None:
        root.set("font-family", FONT)
    else:
        root.set("aria-labelledby", f"{name}-title {name}-text")
    for tag, suffix, words in (
        ("title", "title", picture.title),
        ("desc", "text", picture.description),
    ):
        element = ElementTree.SubElement(root, tag_of(tag))
        element.text = printable(words)
        if name is not None:
            element.set("id", f"{name}-{suffix}")
    root.extend(picture.svg)
    ElementTree.indent(root, "")
    return ElementTree.tostring(root, encoding="unicode")


SVG = "http://www.w3.org/2000/svg"
LETTER = 6.6  # px: the mean width of a letter of SMALL
RADIUS = 5.3  # px of a mark
STROKE = "stroke"  # a mark that is a vertical line
CORNERS = {  # of marks, in multiples of RADIUS; a circle has none
    "diamond": ((0, -1.1), (1.1, 0), (0, 1.1), (-1.1, 0)),
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle-up": ((0, -1), (1, 0.9), (-1, 0.9)),
    "triangle-down": ((0, 1), (1, -0.9), (-1, -0.9)),
    "cross": tuple(
        (x * s, y * s)
        for s in (1, -1)
        for x, y in ((-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35))
    ),
}
# attributes that a group can have instead of the shapes in it
GROUP_STYLE = {"fill", "stroke", "stroke-width", "stroke-opacity", "font-size", "font-weight"}

ElementTree.register_namespace("", SVG)


def tag_of(name: str) -> str:
    """Return the name of an element of SVG."""
    return f"{{{SVG}}}{name}"


def text_element(
    x: float,
    y: float,
    words: str,
    *,
    size: int = SMALL,
    colour: str = GREY,
    is_bold: bool = False,
    anchor: str = "start",
) -> Element:
    """Return words with their baseline at `y`; `anchor` is what is at `x`: start, middle or end."""
    style = {"fill": colour, "font-size": str(size)}
    if is_bold:
        style["font-weight"] = "bold"
    if anchor != "start":
        style["text-anchor"] = anchor
    found = Element(tag_of("text"), {"x": px(x), "y": px(y), **style})
    found.text = printable(words)
    return found


def line_element(
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = GREY,
    width: float = 1.0,
    opacity: float = 1.0,
) -> Element:
    """Return a straight line."""
    places = {"x1": px(start[0]), "y1": px(start[1]), "x2": px(end[0]), "y2": px(end[1])}
    return Element(tag_of("line"), {**places, **_pen(colour, width, opacity)})


def path_element(places: Sequence[tuple[float, float]], colour: str, width: float = 1.5) -> Element:
    """Return a line through places."""
    d = "M" + "L".join(f"{px(x)} {px(y)}" for x, y in places)
    return Element(tag_of("path"), {"d": d, "fill": "none", **_pen(colour, width)})


def mark_element(x: float, y: float, shape: str, colour: str, title: str | None = None) -> Element:
    """Return a mark; `title` is its value as text."""
    if shape == STROKE:
        found = line_element((x, y - RADIUS), (x, y + RADIUS), colour, 2.0)
    elif shape in CORNERS:
        corners = ((x + dx * RADIUS, y + dy * RADIUS) for dx, dy in CORNERS[shape])
        d = "M" + "L".join(f"{px(left)} {px(top)}" for left, top in corners) + "Z"
        found = Element(tag_of("path"), {"d": d, "fill": colour})
    else:
        found = Element(
            tag_of("circle"), {"cx": px(x), "cy": px(y), "r": px(RADIUS), "fill": colour}
        )
    if title is not None:
        ElementTree.SubElement(found, tag_of("title")).text = printable(title)
    return found


def svg_element(width: float, height: float, shapes: Iterable[Element]) -> Element:
    """Return a picture; consecutive shapes of one style share a group."""
    size = {"width": px(width), "height": px(height)}
    view = f"0 0 {px(width)} {px(height)}"
    root = Element(tag_of("svg"), {"viewBox": view, **size, "role": "img"})
    for style, found in itertools.groupby(shapes, key=_style):
        own = [*found]
        parent = root
        if len(own) > 1 and style:
            parent = ElementTree.SubElement(root, tag_of("g"), dict(style))
            for shape, (name, _) in itertools.product(own, style):
                del shape.attrib[name]
        parent.extend(own)
    return root


def px(value: float) -> str:
    """Return a length in px, with one decimal place."""
    shown = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


def _pen(colour: str, width: float, opacity: float = 1.0) -> dict[str, str]:
    style = {"stroke": colour, "stroke-width": px(width)}
    return style if opacity == 1.0 else {**style, "stroke-opacity": f"{opacity:g}"}


def _style(shape: Element) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in shape.attrib.items() if name in GROUP_STYLE)


# Axes, logarithmic or linear: their ends, ticks and labels.
STEPS = (1, 2, 5)  # a tick is one of these times a power of ten
SMALLEST = 1e-9  # smallest span, as a share of its ends; a smaller one counts as 0
LABEL_GAP = 4  # px between two labels
MOST = 6  # ticks of an axis, so that labels do not overlap in a narrow picture


@dataclass(frozen=True)
class Axis:
    """The ends of an axis, its ticks in ascending order, and the label of each."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    is_log: bool

    def place(self, value: float, first: float, last: float) -> float:
        """Return the place of a value between `first` and `last`, the ends of the axis in px.

        Values beyond the ends are at the ends.
        """
        known = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(known / self.low) / math.log(self.high / self.low)
        else:
            share = (known - self.low) / (self.high - self.low)
        return first + share * (last - first)

    def labelled(self, first: float, last: float) -> list[tuple[float, str]]:
        """Return the places and the labels of the ticks: every second one if they would overlap."""
        found = [
            (self.place(tick, first, last), label)
            for tick, label in zip(self.ticks, self.labels, strict=True)
        ]
        needed = (
            LETTER * (len(one[1]) + len(other[1])) / 2 + LABEL_GAP
            for one, other in itertools.pairwise(found)
        )
        apart = (abs(other[0] - one[0]) for one, other in itertools.pairwise(found))
        is_crowded = any(space < width for space, width in zip(apart, needed, strict=True))
        return found[::2] if is_crowded else found


def plain_label(value: float) -> str:
    """Return the label of a number without a unit."""
    return f"{value:g}"


def log_axis(
    values: Sequence[float], label: Callable[[float], str], includes: Sequence[float] = ()
) -> Axis:
    """Return an axis whose ends are ticks below and above all positive values."""
    known = [value for value in (*values, *includes) if 0 < value < math.inf] or [1.0]
    low, high = _below(min(known)), _above(max(known))
    if low == high:
        low, high = _below(low * 0.99), _above(high * 1.01)
    ticks = _series(low, high)
    if len(ticks) > MOST:
        ticks = [tick for tick in ticks if math.log10(tick).is_integer()]
    every = math.ceil(len(ticks) / MOST)
    kept = tuple(ticks[::every])
    return Axis(low, high, kept, tuple(map(label, kept)), is_log=True)


def linear_axis(
    values: Sequence[float], label: Callable[[float], str], low: float = 0.0, high: float = 0.0
) -> Axis:
    """Return an axis from `low` or less to `high` or more, both of which are ticks."""
    ends = min([low, *values]), max([high, *values])
    span = ends[1] - ends[0]
    if span <= SMALLEST * max(abs(ends[0]), abs(ends[1]), SMALLEST):
        span, ends = 1.0, (ends[0], ends[0] + 1.0)
    power = math.floor(math.log10(span / MOST))
    sizes = [step * 10.0**exponent for exponent in (power, power + 1) for step in STEPS]
    step = next(size for size in sizes if span / size <= MOST - 1)
    first, last = math.floor(ends[0] / step + 1e-9), math.ceil(ends[1] / step - 1e-9)
    ticks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, tuple(map(label, ticks)), is_log=False)


def _series(low: float, high: float) -> list[float]:
    """Return the ticks from `low` to `high`."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found = [_tick(step, power) for power in powers for step in STEPS]
    return [tick for tick in found if low <= tick <= high]


def _below(value: float) -> float:
    power = math.floor(math.log10(value))
    ticks = [_tick(step, each) for each in (power - 1, power, power + 1) for step in STEPS]
    return max(tick for tick in ticks if tick <= value)


def _above(value: float) -> float:
    power = math.floor(math.log10(value))
    ticks = [_tick(step, each) for each in (power - 1, power, power + 1) for step in STEPS]
    return min(tick for tick in ticks if tick >= value)


def _tick(step: int, power: int) -> float:
    return float(f"{step}e{power}")


# Bands: values as dots with intervals, a band for each case, a line for each value.
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
BANDS_FOOT, FOOT_LINE = 26, 16  # px: the height of the axis, and of a line below it


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
        found += [text_element(0, height + BANDS_FOOT + FOOT_LINE * n, words) for n, words in feet]
        more = FOOT_LINE * len(self.feet) + 6 if self.feet else 0
        return svg_element(self.layout.width, height + BANDS_FOOT + more, found)

    @property
    def _top(self) -> int:
        """The y position of the first band, below the heads, the legend and the ends."""
        heads = 24 + FOOT_LINE * len(self.heads) if self.heads else 0
        legend = ROW * len(_legend_rows(self.keys, self.layout.width))
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
            yield text_element(at, height + 18, label, anchor="middle")

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
            yield text_element(x, y, words, size=TEXT, colour=colour, anchor=anchor)

    def _rules(self, top: int, height: int) -> Iterator[Element]:
        """Yield a faint vertical line at each tick, and a clear one at the reference."""
        for tick in self.axis.ticks:
            x = self._x(tick)
            yield line_element((x, top), (x, height), opacity=0.3)
        if self.reference is not None:
            x = self._x(self.reference)
            yield line_element((x, top), (x, height), width=2.0)

    def _intervals(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        for _, y, line in self._lines(placed):
            if line.low is not None and line.high is not None:
                ends = (self._x(line.low), y), (self._x(line.high), y)
                yield line_element(*ends, line.marks[0].colour, 4.0)

    def _marks(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        for _, y, line in self._lines(placed):
            for each in line.marks:
                yield mark_element(self._x(each.value), y, each.shape, each.colour, each.title)

    def _legend(self, top: float) -> Iterator[Element]:
        """Yield the mark and the words of each entry of the legend."""
        for number, row in enumerate(_legend_rows(self.keys, self.layout.width)):
            y = top + ROW * number
            for x, key in row:
                yield mark_element(x, y, key.shape, key.colour)
                yield text_element(x + 12, y + 4, key.words)

    def _head_texts(self) -> Iterator[Element]:
        for number, words in enumerate(self.heads):
            is_first = number == 0
            size = 17 if is_first else SMALL
            yield text_element(0, 20 + FOOT_LINE * number, words, size=size, is_bold=is_first)

    def _labels(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        layout = self.layout
        for top, band in placed:
            is_heading = not band.lines
            y, is_bold = top + layout.label + (6 if is_heading else 0), is_heading or layout.is_bold
            yield text_element(0, y, band.label, size=layout.size, is_bold=is_bold)
            if band.detail:
                yield text_element(0, top + layout.detail, band.detail)

    def _figures(self, placed: Sequence[tuple[int, Band]]) -> Iterator[Element]:
        layout = self.layout
        for top, y, line in self._lines(placed):
            if layout.figure is None:
                at = (layout.width, top + layout.label)
                yield text_element(*at, line.text, size=layout.size, anchor="end")
            elif layout.is_bold:
                look = {"size": layout.size, "colour": line.marks[0].colour, "is_bold": True}
                yield text_element(layout.figure, y + 5, line.figure, **look)  # type: ignore[arg-type]
                yield text_element(layout.figure + 60, y + 5, line.detail)
            else:
                yield text_element(layout.figure, y + 4, line.text)


def _legend_rows(keys: Sequence[Key], width: int) -> list[list[tuple[float, Key]]]:
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


# A plane: values over a number or over time, with intervals, curves, and a rule.
PLANE_WIDTH, PLANE_HEIGHT = 400, 240  # px
LEFT, RIGHT, TOP = 58, 12, 26  # px beside and above the plot
PLANE_FOOT = 44  # px: the height of the x axis
NAME_GAP = 9  # px between a point and its name


@dataclass(frozen=True)
class Plane:
    """Both axes with their titles."""

    x: Axis
    y: Axis
    x_title: str
    y_title: str

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a value in px."""
        return self.x.place(x, LEFT, PLANE_WIDTH - RIGHT), self.y.place(y, PLANE_HEIGHT, TOP)


def plane_svg(
    plane: Plane, spots: Sequence[Spot], curves: Sequence[Curve], at: float | None = None
) -> Element:
    """Return a picture, with a vertical rule at `at` on the x axis.

    A spot that a curve goes through has its colour.
    """
    colours = [PALETTE[number % len(PALETTE)] for number in range(len(curves))]
    through = {
        place: colour
        for curve, colour in zip(curves, colours, strict=True)
        for place in curve.places
    }
    coloured = [(spot, through.get((spot.x, spot.y), BLUE)) for spot in spots]
    found = [*_axes(plane)]
    if at is not None:
        x, _ = plane.place(at, plane.y.low)
        found.append(line_element((x, TOP), (x, PLANE_HEIGHT), width=2.0))
    found += [
        path_element([plane.place(*place) for place in curve.places], colour)
        for curve, colour in zip(curves, colours, strict=True)
    ]
    for spot, colour in coloured:
        if spot.low is not None and spot.high is not None:
            ends = plane.place(spot.x, spot.low), plane.place(spot.x, spot.high)
            found.append(line_element(*ends, colour, 4.0))
    found += [
        mark_element(*plane.place(spot.x, spot.y), SHAPES[0], colour, spot.words)
        for spot, colour in coloured
    ]
    found += [*_names(plane, spots), *_titles(plane, curves, colours)]
    return svg_element(PLANE_WIDTH, PLANE_HEIGHT + PLANE_FOOT, found)


def _axes(plane: Plane) -> Iterator[Element]:
    right = PLANE_WIDTH - RIGHT
    for y, _ in plane.y.labelled(PLANE_HEIGHT, TOP):
        yield line_element((LEFT, y), (right, y), opacity=0.3)
    for y, label in plane.y.labelled(PLANE_HEIGHT, TOP):
        yield text_element(LEFT - 6, y + 4, label, anchor="end")
    for x, label in plane.x.labelled(LEFT, right):
        yield text_element(x, PLANE_HEIGHT + 18, label, anchor="middle")
    yield text_element((LEFT + right) / 2, PLANE_HEIGHT + 36, plane.x_title, anchor="middle")


def _names(plane: Plane, spots: Sequence[Spot]) -> Iterator[Element]:
    """Yield the names of spots, each at the first side where it covers no name and no spot."""
    places = [plane.place(spot.x, spot.y) for spot in spots]
    taken = [(x - NAME_GAP / 2, y + 4, float(NAME_GAP)) for x, y in places]
    for spot in spots:
        if not spot.name:
            continue
        x, y = plane.place(spot.x, spot.y)
        width = LETTER * len(spot.name)
        ends = (x + NAME_GAP, x - NAME_GAP - width)
        sides = [(left, y + dy) for dy in (4, -14, 22, -28, 36) for left in ends]
        left, base = next((side for side in sides if _is_free(side, width, taken)), sides[0])
        taken.append((left, base, width))
        yield text_element(left, base, spot.name)


def _is_free(
    side: tuple[float, float], width: float, taken: Sequence[tuple[float, float, float]]
) -> bool:
    """Whether a name of `width` px fits at its left end and baseline, beside those placed."""
    left, base = side
    is_inside = left >= LEFT and left + width <= PLANE_WIDTH
    return is_inside and not any(
        left < other + own and other < left + width and abs(base - line) < SMALL
        for other, line, own in taken
    )


def _titles(plane: Plane, curves: Sequence[Curve], colours: Sequence[str]) -> Iterator[Element]:
    """Yield the title of the y axis above it, and the names of the curves at the right."""
    yield text_element(0, 14, plane.y_title)
    x = float(PLANE_WIDTH)
    for curve, colour in reversed([*zip(curves, colours, strict=True)]):
        if curve.name:
            yield text_element(x, 14, f"\u2014 {curve.name}", colour=colour, anchor="end")
            x -= LETTER * len(curve.name) + 36
