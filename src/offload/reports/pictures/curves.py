"""A picture of values over a number or over time: dots with intervals, curves, and a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from offload.reports.pictures import drawing
from offload.reports.pictures.axis import Axis
from offload.reports.pictures.drawing import BLUE, GREY, LETTER, SHAPES, SMALL

WIDTH, HEIGHT = 400, 240  # px
LEFT, RIGHT, TOP = 58, 12, 26  # px beside and above the plot
FOOT = 44  # px: the height of the x axis
GAP = 9  # px between a point and its name


@dataclass(frozen=True)
class Point:
    """A value at `x` with its interval, if it has one; `title` is the value as text.

    `name` is written beside it, where no other name is.
    """

    x: float
    y: float
    title: str
    low: float | None = None
    high: float | None = None
    name: str = ""
    colour: str = BLUE


@dataclass(frozen=True)
class Curve:
    """A line through (x, y), named in the legend."""

    name: str
    places: tuple[tuple[float, float], ...]
    colour: str = GREY


@dataclass(frozen=True)
class Plane:
    """Both axes with their titles."""

    x: Axis
    y: Axis
    x_title: str
    y_title: str

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a value in px."""
        return self.x.place(x, LEFT, WIDTH - RIGHT), self.y.place(y, HEIGHT, TOP)


def svg(
    plane: Plane, points: Sequence[Point], curves: Sequence[Curve], at: float | None = None
) -> Element:
    """Return a picture, with a vertical rule at `at` on the x axis."""
    found = [*_axes(plane)]
    if at is not None:
        x, _ = plane.place(at, plane.y.low)
        found.append(drawing.line((x, TOP), (x, HEIGHT), width=2.0))
    found += [
        drawing.path([plane.place(*place) for place in curve.places], curve.colour)
        for curve in curves
    ]
    for point in points:
        if point.low is not None and point.high is not None:
            ends = plane.place(point.x, point.low), plane.place(point.x, point.high)
            found.append(drawing.line(*ends, point.colour, 4.0))
    found += [
        drawing.mark(*plane.place(point.x, point.y), SHAPES[0], point.colour, point.title)
        for point in points
    ]
    found += [*_names(plane, points), *_titles(plane, curves)]
    return drawing.svg(WIDTH, HEIGHT + FOOT, found)


def _axes(plane: Plane) -> Iterator[Element]:
    right = WIDTH - RIGHT
    for y, _ in plane.y.labelled(HEIGHT, TOP):
        yield drawing.line((LEFT, y), (right, y), opacity=0.3)
    for y, label in plane.y.labelled(HEIGHT, TOP):
        yield drawing.text(LEFT - 6, y + 4, label, anchor="end")
    for x, label in plane.x.labelled(LEFT, right):
        yield drawing.text(x, HEIGHT + 18, label, anchor="middle")
    yield drawing.text((LEFT + right) / 2, HEIGHT + 36, plane.x_title, anchor="middle")


def _names(plane: Plane, points: Sequence[Point]) -> Iterator[Element]:
    """Yield the names of points, each at the first side where it covers no name and no point."""
    places = [plane.place(point.x, point.y) for point in points]
    taken = [(x - GAP / 2, y + 4, float(GAP)) for x, y in places]
    for point in points:
        if not point.name:
            continue
        x, y = plane.place(point.x, point.y)
        width = LETTER * len(point.name)
        ends = (x + GAP, x - GAP - width)
        sides = [(left, y + dy) for dy in (4, -14, 22, -28, 36) for left in ends]
        left, base = next((side for side in sides if _is_free(side, width, taken)), sides[0])
        taken.append((left, base, width))
        yield drawing.text(left, base, point.name)


def _is_free(
    side: tuple[float, float], width: float, taken: Sequence[tuple[float, float, float]]
) -> bool:
    """Whether a name of `width` px fits at its left end and baseline, beside those placed."""
    left, base = side
    is_inside = left >= LEFT and left + width <= WIDTH
    return is_inside and not any(
        left < other + own and other < left + width and abs(base - line) < SMALL
        for other, line, own in taken
    )


def _titles(plane: Plane, curves: Sequence[Curve]) -> Iterator[Element]:
    """Yield the title of the y axis above it, and the names of the curves at the right."""
    yield drawing.text(0, 14, plane.y_title)
    x = float(WIDTH)
    for curve in reversed([curve for curve in curves if curve.name]):
        yield drawing.text(x, 14, f"\u2014 {curve.name}", colour=curve.colour, anchor="end")
        x -= LETTER * len(curve.name) + 36
