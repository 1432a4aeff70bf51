"""The document that people see: a headline, sentences, a table and charts, without any layout.

A study writes it; renderers know no study. It is saved beside the records of its run.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offload import files
from offload.errors import StorageError

FILE = "document.json"
QUESTION = "question.json"  # what the result of a study needs besides the records


@dataclass(frozen=True)
class Paragraph:
    """Sentences under a title."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Spot:
    """A point of a chart: its place, its value in words, its interval, and its name if shown."""

    x: float
    y: float
    words: str
    low: float | None = None
    high: float | None = None
    name: str = ""


@dataclass(frozen=True)
class Curve:
    """A line of a chart through (x, y), with a name."""

    name: str
    places: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """Values over a number; the titles of the axes have the units."""

    title: str
    x_title: str
    y_title: str
    spots: tuple[Spot, ...]
    curves: tuple[Curve, ...] = ()
    about: str = ""


@dataclass(frozen=True)
class Document:
    """What a study answers: `headline`, a table of `head` and `rows`, paragraphs and charts.

    `command` does what is advised, in a shell. `has_verdict` is False if the measurement was
    disturbed.
    """

    headline: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    paragraphs: tuple[Paragraph, ...] = ()
    charts: tuple[Chart, ...] = ()
    command: str | None = None
    has_verdict: bool = True

    @property
    def values(self) -> dict[str, Any]:
        """The values of the JSON object in FILE."""
        return asdict(self)


def load(folder: Path) -> Document:
    """Read the document of a run; raise StorageError."""
    path = folder / FILE
    try:
        values = files.parse_json(files.read(path))
        return Document(
            str(values["headline"]),
            tuple(map(str, values["head"])),
            tuple(tuple(map(str, row)) for row in values["rows"]),
            tuple(
                Paragraph(str(each["title"]), tuple(map(str, each["sentences"])))
                for each in values["paragraphs"]
            ),
            tuple(map(_chart, values.get("charts", ()))),
            None if values.get("command") is None else str(values["command"]),
            values["has_verdict"] is True,
        )
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "repeat the command") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StorageError(f"{path} is not readable: {error}", "repeat the command") from error


def exists(folder: Path) -> bool:
    """Whether a run has a document."""
    return (folder / FILE).exists()


def as_json(document: Document) -> str:
    """Return the content of FILE."""
    return f"{json.dumps(document.values, indent=1)}\n"


def _chart(values: Any) -> Chart:
    return Chart(
        str(values["title"]),
        str(values["x_title"]),
        str(values["y_title"]),
        tuple(Spot(**each) for each in values["spots"]),
        tuple(
            Curve(str(each["name"]), tuple((float(x), float(y)) for x, y in each["places"]))
            for each in values["curves"]
        ),
        str(values["about"]),
    )
