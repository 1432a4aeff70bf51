"""Draw specifications as SVG with Vega-Lite, and reduce the SVG to the necessary parts."""

from __future__ import annotations

import importlib.util
import json
import os
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
from offload.reports.printable import printable

PACKAGE = "vl_convert"
PROGRAM = Path(__file__).with_name("_convert.py")
TIMEOUT = 20.0  # s for all pictures, which take about 1 s; a run waits for them at its end


@dataclass(frozen=True)
class Picture:
    """A specification, and the title and the description of its picture for screen readers."""

    spec: Mapping[str, object]
    title: str
    description: str = ""


def is_available() -> bool:
    """Whether pictures can be drawn: the package is installed, and PICTURES is not `no`."""
    return not _are_off() and importlib.util.find_spec(PACKAGE) is not None


def _are_off() -> bool:
    return os.environ.get("PICTURES") == "no"


def missing() -> MachineError:
    """Return the error for pictures that are not available, with its remedy."""
    if _are_off():
        return MachineError("PICTURES=no", "unset it to draw them")
    return MachineError(f"pictures need the package {PACKAGE}", requirements.remedy([PACKAGE]))


def draw_inline(pictures: Sequence[Picture]) -> list[str]:
    """Draw pictures as elements of one HTML page; raise UserError."""
    found = _draw(pictures)
    for number, (root, picture) in enumerate(zip(found, pictures, strict=True), start=1):
        name = f"picture-{number}"
        _name(root, picture, name)
        root.set("aria-labelledby", f"{name}-title {name}-text")
    return [_text(root) for root in found]


def draw_standalone(picture: Picture) -> str:
    """Draw a picture as a separate file; raise UserError."""
    [root] = _draw([picture])
    root.set("font-family", FONT)
    _name(root, picture, None)
    return f"{_text(root)}\n"


def _draw(pictures: Sequence[Picture]) -> list[Element]:
    if not is_available():
        raise missing()
    specs = json.dumps([_printable(picture.spec) for picture in pictures], allow_nan=False)
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
        return [svg.clean(text) for text in json.loads(ended.stdout)]
    except (ValueError, ElementTree.ParseError):
        raise RunError(f"the pictures were not drawn: {_reason(ended)}") from None


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the line of the error from stderr, without its traceback."""
    lines = [line for line in ended.stderr.splitlines() if line and not line[0].isspace()]
    known = [line for line in lines if not line.startswith("Traceback")]
    return known[0][:200] if known else f"exit code {ended.returncode}"


def _printable(value: object) -> object:
    """Return a specification whose texts are printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: _printable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(each) for each in value]
    return value


def _name(root: Element, picture: Picture, name: str | None) -> None:
    """Add the title and the description to a picture, with ids for its page."""
    texts = (("title", "title", picture.title), ("desc", "text", picture.description))
    for place, (tag, suffix, text) in enumerate(texts):
        element = Element(svg.tag_of(tag))
        element.text = printable(text)
        if name is not None:
            element.set("id", f"{name}-{suffix}")
        root.insert(place, element)


def _text(root: Element) -> str:
    ElementTree.indent(root, "")
    return ElementTree.tostring(root, encoding="unicode")
