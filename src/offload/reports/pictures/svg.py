"""Reduce the SVG of Vega to a third, by removing classes, fonts and invisible elements."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

SVG = "http://www.w3.org/2000/svg"
DIGITS = 1  # decimal places of coordinates in px
KEPT = {
    *("d", "transform", "x", "y", "x1", "x2", "y1", "y2", "fill", "stroke", "stroke-width"),
    *("stroke-dasharray", "stroke-opacity", "opacity", "font-size", "font-weight", "text-anchor"),
}
DEFAULTS = {
    "transform": {"translate(0,0)"},
    "font-weight": {"normal"},
    "text-anchor": {"start"},
    "opacity": {"1"},
    **{name: {"0"} for name in ("x1", "x2", "y1", "y2")},
}
STYLE = {  # attributes that a group can have instead of the elements in it
    *("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity"),
    *("font-size", "font-weight", "text-anchor"),
}
PLACE = re.compile(r"translate\(([^,]+),([^,]+)\)")
ROUND = re.compile(r"M([\d.]+),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0")
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")

ElementTree.register_namespace("", SVG)


def clean(text: str) -> Element:
    """Parse a picture of Vega and keep its visible elements, with a title for each value."""
    root = ElementTree.fromstring(text)  # noqa: S314 - our own child process wrote it
    size = {name: root.attrib[name] for name in ("viewBox", "width", "height")}
    _clean(root)
    root.attrib.clear()
    root.attrib.update({**size, "role": "img"})
    return root


def _clean(element: Element) -> None:
    """Remove invisible elements and useless attributes; write descriptions of values as titles."""
    for child in [*element]:
        label = child.attrib.get("aria-label", "")
        is_named = child.attrib.get("role") == "graphics-symbol" and child.tag != tag_of("g")
        _keep_attributes(child)
        _clean(child)
        if is_named and label and "axis" not in child.attrib.get("aria-roledescription", ""):
            ElementTree.SubElement(child, tag_of("title")).text = label
        if _is_invisible(child):
            element.remove(child)
        else:
            _place(child)
    _unwrap(element)
    _group(element)


def _keep_attributes(element: Element) -> None:
    for name, value in [*element.attrib.items()]:
        rounded = NUMBER.sub(_rounded, value)
        is_default = rounded in DEFAULTS.get(name, ())
        if name not in KEPT or is_default:
            del element.attrib[name]
        else:
            element.set(name, rounded.removesuffix("px") if name == "font-size" else rounded)


def _rounded(number: re.Match[str]) -> str:
    return _short(float(number[0]))


def _is_invisible(element: Element) -> bool:
    if element.tag == tag_of("g"):
        return len(element) == 0
    if element.tag == tag_of("path"):
        paints = {element.attrib.get(name, "none") for name in ("fill", "stroke")}
        return paints <= {"none", "transparent"}
    return element.tag == tag_of("line") and element.attrib.get("stroke", "none") == "none"


def _unwrap(parent: Element) -> None:
    """Replace groups without attributes by their children."""
    for child in [*parent]:
        if child.tag == tag_of("g") and not child.attrib:
            place = [*parent].index(child)
            parent.remove(child)
            for offset, grandchild in enumerate([*child]):
                parent.insert(place + offset, grandchild)


def _place(element: Element) -> None:
    """Replace the translation of a line, a circle or a text by coordinates, which is shorter."""
    found = PLACE.fullmatch(element.attrib.get("transform", ""))
    circle = ROUND.fullmatch(element.attrib.get("d", ""))
    x, y = (float(part) for part in found.groups()) if found else (0.0, 0.0)
    if element.tag == tag_of("line"):
        ends = {"x1": x, "x2": x, "y1": y, "y2": y}
        places = {name: float(element.attrib.get(name, 0)) + by for name, by in ends.items()}
    elif element.tag == tag_of("text") and found:
        places = {"x": x, "y": y}
    elif circle and found:
        element.tag = tag_of("circle")
        del element.attrib["d"]
        places = {"cx": x, "cy": y, "r": float(circle[1])}
    else:
        return
    element.attrib.pop("transform", None)
    style = {**element.attrib}
    element.attrib.clear()
    element.attrib.update({name: _short(value) for name, value in places.items()})
    element.attrib.update({name: value for name, value in style.items() if name not in places})


def _group(parent: Element) -> None:
    """Group consecutive elements of the same style, so that only the group has the style."""
    children = [*parent]
    if len(children) < 2 or parent.tag not in (tag_of("g"), tag_of("svg")):
        return
    for child in children:
        parent.remove(child)
    for style, found in itertools.groupby(children, key=_style):
        own = [*found]
        if len(own) < 2 or not style:
            parent.extend(own)
            continue
        group = ElementTree.SubElement(parent, tag_of("g"), dict(style))
        for child in own:
            for name, _ in style:
                del child.attrib[name]
            group.append(child)


def _style(element: Element) -> tuple[tuple[str, str], ...]:
    if element.tag == tag_of("g"):
        return ()
    return tuple((name, value) for name, value in element.attrib.items() if name in STYLE)


def _short(value: float) -> str:
    text = f"{value:.{DIGITS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def tag_of(name: str) -> str:
    """Return the name of an element of SVG."""
    return f"{{{SVG}}}{name}"
