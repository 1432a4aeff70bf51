"""Draw specifications as SVG: by Vega-Lite, then without what a picture of ours does not need."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from offload.errors import MachineError, RunError
from offload.registry import requirements
from offload.reports.pictures import svg
from offload.reports.pictures.style import FONT

PACKAGE = "vl_convert"
PROGRAM = Path(__file__).with_name("_convert.py")
TIMEOUT = 60.0  # s for all pictures, which take about 1 s
# What XML cannot have, and halves of a character that are no character.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Picture:
    """A specification, and what its picture shows: a title, and a description for readers of it."""

    spec: Mapping[str, object]
    title: str
    description: str = ""


def is_available() -> bool:
    """Whether pictures can be drawn: an optional package is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


def inline(pictures: Sequence[Picture]) -> list[str]:
    """Draw pictures as elements of one HTML page; raise UserError."""
    found = _draw(pictures)
    for number, (root, picture) in enumerate(zip(found, pictures, strict=True), start=1):
        name = f"picture-{number}"
        _name(root, picture, name)
        root.set("aria-labelledby", f"{name}-title {name}-text")
    return [_text(root) for root in found]


def standalone(picture: Picture) -> str:
    """Draw a picture as a file of its own; raise UserError."""
    [root] = _draw([picture])
    root.set("font-family", FONT)
    _name(root, picture, None)
    return f"{_text(root)}\n"


def plain(text: str) -> str:
    """Replace what no document may contain, such as control characters."""
    return UNPRINTABLE.sub("\ufffd", text)


def _draw(pictures: Sequence[Picture]) -> list[Element]:
    if not is_available():
        what = f"pictures need the package {PACKAGE}"
        raise MachineError(what, requirements.remedy([PACKAGE]))
    specs = json.dumps([_plain(picture.spec) for picture in pictures], allow_nan=False)
    command = [sys.executable, "-P", str(PROGRAM)]
    try:
        ended = subprocess.run(
            command, input=specs, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the pictures were not drawn within {TIMEOUT:.0f} s", "retry") from None
    except OSError as error:
        raise RunError(f"the pictures were not drawn: {error.strerror}", "retry") from None
    try:
        return [svg.cleaned(text) for text in json.loads(ended.stdout)]
    except (ValueError, ElementTree.ParseError):
        raise RunError(f"the pictures were not drawn: {_reason(ended)}") from None


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the line of the error, without the calls that led to it."""
    lines = [line for line in ended.stderr.splitlines() if line and not line[0].isspace()]
    known = [line for line in lines if not line.startswith("Traceback")]
    return known[0][:200] if known else f"exit code {ended.returncode}"


def _plain(value: object) -> object:
    """Return a specification whose texts are plain."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _name(root: Element, picture: Picture, name: str | None) -> None:
    """Put the title and the description into a picture, with ids for its page."""
    texts = (("title", "title", picture.title), ("desc", "text", picture.description))
    for place, (tag, suffix, text) in enumerate(texts):
        element = Element(svg.tag_of(tag))
        element.text = plain(text)
        if name is not None:
            element.set("id", f"{name}-{suffix}")
        root.insert(place, element)


def _text(root: Element) -> str:
    ElementTree.indent(root, "")
    return ElementTree.tostring(root, encoding="unicode")
