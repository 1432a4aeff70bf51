"""Samples: when every request of a load began and ended, and what became of it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from time import monotonic


def _doubles() -> array[float]:
    return array("d")


@dataclass
class Samples:
    """What one load process saw, in seconds of CLOCK_MONOTONIC.

    `began`, `sent` and `ended` are of completed requests, in the order of their ends; one is sent
    when it is connected. `failed` has kind, begin and end of the others; `unfinished` the begins of
    those in flight when it was `over`. `asked` and `late` say of an open loop when each was to
    begin, and how late it was begun. `busy` is the share of one core that it used within the
    window. `problem` says why it ended early.
    """

    began: array[float] = field(default_factory=_doubles)
    sent: array[float] = field(default_factory=_doubles)
    ended: array[float] = field(default_factory=_doubles)
    failed: list[tuple[str, float, float]] = field(default_factory=list)
    unfinished: list[float] = field(default_factory=list)
    asked: array[float] = field(default_factory=_doubles)
    late: array[float] = field(default_factory=_doubles)
    over: float = field(default_factory=monotonic)
    busy: float | None = None
    problem: str | None = None
