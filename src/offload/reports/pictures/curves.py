"""A picture of values over a number or over time: dots with intervals, curves, and a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offload.reports.pictures.axis import Axis
from offload.reports.pictures.style import BLUE, CONFIG, GREY, SHAPES, SMALL
from offload.reports.pictures.texts import LETTER

WIDTH, HEIGHT = 400, 240  # px
LEFT, RIGHT, TOP = 58, 12, 26  # px beside and above the plot
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
        """Return the place of a point in px; both axes are linear."""
        across = (x - self.x.low) / (self.x.high - self.x.low)
        up = (y - self.y.low) / (self.y.high - self.y.low)
        return LEFT + across * (WIDTH - RIGHT - LEFT), HEIGHT - up * (HEIGHT - TOP)

    def encoding(self, channel: str, field: str) -> dict[str, object]:
        """Return the encoding of a field on one of the axes."""
        is_x = channel == "x"
        axis = self.x if is_x else self.y
        ends = [LEFT, WIDTH - RIGHT] if is_x else [HEIGHT, TOP]
        shown: dict[str, object] = {
            "values": list(axis.ticks),
            "labelExpr": axis.label_expression,
            "labelOverlap": "parity",
            "title": self.x_title if is_x else None,
            "grid": not is_x,
        }
        # The axis of the picture is at its left edge: move it to that of the plot.
        shown |= {} if is_x else {"offset": -LEFT}
        scale = {**axis.scale, "range": ends}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": shown}


def spec(
    plane: Plane, points: Sequence[Point], curves: Sequence[Curve], at: float | None = None
) -> dict[str, object]:
    """Return the specification of a picture, with a vertical rule at `at` on the x axis."""
    layers = [*_rule(plane, at), *_curves(plane, curves), *_intervals(plane, points)]
    layers += [*_points(plane, points), *_names(plane, points), *_texts(plane, curves)]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "padding": {"left": 0, "right": 0, "top": 0, "bottom": 44},
        "autosize": "none",
        "config": CONFIG,
        "layer": layers,
    }


def _rule(plane: Plane, at: float | None) -> Iterator[dict[str, object]]:
    if at is not None:
        yield {
            "data": {"values": [{"x": at}]},
            "mark": {"type": "rule", "stroke": GREY, "strokeWidth": 2, "aria": False},
            "encoding": {
                "x": plane.encoding("x", "x"),
                "y": {"value": TOP},
                "y2": {"value": HEIGHT},
            },
        }


def _curves(plane: Plane, curves: Sequence[Curve]) -> Iterator[dict[str, object]]:
    for curve in curves:
        mark = {"type": "line", "stroke": curve.colour, "strokeWidth": 1.5, "aria": False}
        yield {
            "data": {"values": [{"x": x, "y": y} for x, y in curve.places]},
            "mark": mark,
            "encoding": {"x": plane.encoding("x", "x"), "y": plane.encoding("y", "y")},
        }


def _intervals(plane: Plane, points: Sequence[Point]) -> Iterator[dict[str, object]]:
    values = [
        {"x": point.x, "low": point.low, "high": point.high}
        for point in points
        if point.low is not None and point.high is not None
    ]
    if values:
        yield {
            "data": {"values": values},
            "mark": {"type": "rule", "stroke": BLUE, "strokeWidth": 4, "aria": False},
            "encoding": {
                "x": plane.encoding("x", "x"),
                "y": plane.encoding("y", "low"),
                "y2": {"field": "high"},
            },
        }


def _points(plane: Plane, points: Sequence[Point]) -> Iterator[dict[str, object]]:
    for colour in dict.fromkeys(point.colour for point in points):
        own = [point for point in points if point.colour == colour]
        mark = {"type": "point", "shape": SHAPES[0], "size": 90, "opacity": 1}
        yield {
            "data": {"values": [{"x": p.x, "y": p.y, "title": p.title} for p in own]},
            "mark": {**mark, "fill": colour, "stroke": colour},
            "encoding": {
                "x": plane.encoding("x", "x"),
                "y": plane.encoding("y", "y"),
                "description": {"field": "title"},
            },
        }


def _names(plane: Plane, points: Sequence[Point]) -> Iterator[dict[str, object]]:
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
        yield _text(left, base, point.name, "left", GREY)


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


def _texts(plane: Plane, curves: Sequence[Curve]) -> Iterator[dict[str, object]]:
    """Yield the title of the y axis above it, and the names of the curves at the right."""
    yield _text(0, 14, plane.y_title, "left", GREY)
    x = float(WIDTH)
    for curve in reversed([curve for curve in curves if curve.name]):
        yield _text(x, 14, f"\u2014 {curve.name}", "right", curve.colour)
        x -= LETTER * len(curve.name) + 36


def _text(x: float, y: float, text: str, align: str, colour: str) -> dict[str, object]:
    mark = {"type": "text", "align": align, "fontSize": SMALL, "fill": colour, "aria": False}
    return {
        "data": {"values": [{"text": text}]},
        "mark": mark,
        "encoding": {"x": {"value": x}, "y": {"value": y}, "text": {"field": "text"}},
    }
