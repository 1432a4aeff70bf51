"""What the page shows: a table of texts, and the current step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from offload.errors import printable

RUNNING, ENDED, BROKEN = "running", "ended", "broken"  # the states
LONGEST = 400  # letters of a cell


@dataclass(frozen=True)
class View:
    """The content of the page; it is sent only if it differs from the previous content.

    `step` describes the current step. The page counts down to the expected end of its `phase` and
    to `ends`, the expected end of the run, both in Unix time in s. `lines` are below the table.
    Rows whose number is in `active` are measured now, and columns in `numbers` are aligned to the
    right. With `has_report` the page shows the report instead.
    """

    state: str
    step: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()
    active: tuple[int, ...] = ()
    phase: str = ""
    phase_ends: float | None = None
    ends: float | None = None
    lines: tuple[str, ...] = ()
    has_report: bool = False

    def encode(self) -> bytes:
        """Return the view as JSON without characters that no document may contain."""
        values = asdict(self)
        for name in ("step", "phase"):
            values[name] = _text(values[name])
        for name in ("head", "lines"):
            values[name] = _texts(values[name])
        values["rows"] = [_texts(row) for row in self.rows]
        return json.dumps(values, separators=(",", ":")).encode()


class Source(Protocol):
    """Where the page's content comes from; `title` is its heading."""

    title: str

    def read(self) -> View:
        """Read what is new, and return the content now; never raise for what others wrote."""

    def report(self) -> bytes | None:
        """Return the finished report in HTML; None if there is none."""


def _texts(texts: Sequence[str]) -> list[str]:
    return [_text(text) for text in texts]


def _text(text: str) -> str:
    return printable(text)[:LONGEST]
