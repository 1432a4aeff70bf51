"""Pictures as elements of a page, or as files of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from offload.errors import printable
from offload.reports.pictures import shapes
from offload.reports.pictures.style import FONT


@dataclass(frozen=True)
class Picture:
    """A picture in SVG, and its title and its description for screen readers."""

    svg: Element
    title: str
    description: str = ""


def inline(pictures: Sequence[Picture]) -> list[str]:
    """Return pictures as elements of one HTML page."""
    return [_text(each, f"picture-{number}") for number, each in enumerate(pictures, start=1)]


def standalone(picture: Picture) -> str:
    """Return a picture as a separate file."""
    return f"{_text(picture, None)}\n"


def _text(picture: Picture, name: str | None) -> str:
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
        element = ElementTree.SubElement(root, shapes.tag_of(tag))
        element.text = printable(words)
        if name is not None:
            element.set("id", f"{name}-{suffix}")
    root.extend(picture.svg)
    ElementTree.indent(root, "")
    return ElementTree.tostring(root, encoding="unicode")
