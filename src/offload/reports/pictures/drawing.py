"""Draw pictures in SVG: their style, their texts, and shapes at positions in px."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

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


def inline(pictures: Sequence[Picture]) -> list[str]:
    """Return pictures as elements of one HTML page."""
    return [
        _with_titles(each, f"picture-{number}") for number, each in enumerate(pictures, start=1)
    ]


def standalone(picture: Picture) -> str:
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


def text(
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


def line(
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = GREY,
    width: float = 1.0,
    opacity: float = 1.0,
) -> Element:
    """Return a straight line."""
    places = {"x1": px(start[0]), "y1": px(start[1]), "x2": px(end[0]), "y2": px(end[1])}
    return Element(tag_of("line"), {**places, **_pen(colour, width, opacity)})


def path(places: Sequence[tuple[float, float]], colour: str, width: float = 1.5) -> Element:
    """Return a line through places."""
    d = "M" + "L".join(f"{px(x)} {px(y)}" for x, y in places)
    return Element(tag_of("path"), {"d": d, "fill": "none", **_pen(colour, width)})


def mark(x: float, y: float, shape: str, colour: str, title: str | None = None) -> Element:
    """Return a mark; `title` is its value as text."""
    if shape == STROKE:
        found = line((x, y - RADIUS), (x, y + RADIUS), colour, 2.0)
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


def svg(width: float, height: float, shapes: Iterable[Element]) -> Element:
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
