"""Suites: one data file per benchmark, with the cases to measure and the claims about them.

A claim is data, too: a ratio, a share of requests, or figures to audit.
"""

from __future__ import annotations

import importlib
import math
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from offload.errors import UsageError
from offload.registry import catalog, places
from offload.suites._case import Case, Origin, Placement, Request

__all__ = ["Audit", "Availability", "Case", "Claim", "Figure", "Origin", "Placement", "Request"]

REQUIRED = ("CASES", "GROUPS")
NO_DATA = {"__init__.py", "_case.py"}  # classes and functions only
RATE, P50, MEMORY = "rate", "response_p50_s", "memory_pss_mib"
# Record fields that claims may compare, and the noun for their ratio in reports.
FIGURES = {
    RATE: "",
    "response_mean_s": "time",
    P50: "time",
    "response_p99_s": "time",
    MEMORY: "memory",
}


def load_suite(name: str) -> ModuleType:
    """Import a suite by its name; raise UsageError with the line if its file is invalid."""
    path = catalog.find_suite(name).path
    try:
        module = importlib.import_module(f"offload.suites.{path.stem}")
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        where = f"{_place(path, error)} cannot be read ({message})"
        raise UsageError(where, "fix or remove the file") from None
    if missing := [what for what in REQUIRED if not hasattr(module, what)]:
        lacks = f"{places.display_path(path)} has no {' and no '.join(missing)}"
        raise UsageError(lacks, "define it, or start the file's name with _")
    return module


def _place(path: Path, error: Exception) -> str:
    """Return file and line of an error: the last frame in a file with data of a suite."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{places.display_path(Path(error.filename))}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(Path(frame.filename).resolve(), frame.lineno) for frame in frames]
    own = [p for p in lines if p[0].parent == path.parent and p[0].name not in NO_DATA]
    file, line = own[-1] if own else (path, 1)
    return f"{places.display_path(file)}:{line}"


@dataclass(frozen=True)
class Claim:
    """`other` has `ratio` times the `figure` of `one`, as claimed by `who` in `where`.

    `statement` is the claim in one sentence. Without a `ratio` it claims only that the figure is
    larger. With `alike` it claims that there is no relevant difference, and `ratio` is the
    published ratio. `figure` is one of FIGURES. The responses of both cases must have the same
    content; `differs` explains an exception. `work` is set if the published work differed between
    the two cases, or from the work here: then the ratios are not comparable. `conditions` describes
    how the published ratio was measured.
    """

    name: str
    who: str
    where: str
    statement: str
    one: Case
    other: Case
    ratio: float | None
    figure: str = RATE
    alike: bool = False
    differs: str | None = None
    work: str | None = None
    conditions: str = field(kw_only=True)

    def __post_init__(self) -> None:
        ratio = 1.0 if self.ratio is None else self.ratio
        if not isinstance(ratio, int | float) or not 0 < ratio < math.inf:
            raise ValueError(f"ratio={self.ratio!r} of {self.name!r} is not a number above 0")
        if self.figure not in FIGURES:
            few = ", ".join(FIGURES)
            raise ValueError(f"figure={self.figure!r} of {self.name!r} is not one of {few}")


@dataclass(frozen=True)
class Figure:
    """A published rate in requests per second, and its limits.

    A request occupies one of `slots` per process (None: one per user) for `service_s` seconds
    (None: unknown). `mean_s` is the published mean response time in s, `body_bytes` the published
    length of a response.
    """

    name: str
    rate: float
    service_s: float | None = None
    slots: int | None = None
    mean_s: float | None = None
    body_bytes: int | None = None


@dataclass(frozen=True)
class Audit:
    """Published figures to check against the limits that `users` and `processes` set.

    Impossible figures are refuted. Figures with different response lengths are not comparable.
    """

    name: str
    who: str
    where: str
    statement: str
    figures: tuple[Figure, ...]
    users: int
    processes: int = 1


@dataclass(frozen=True)
class Availability:
    """`case` completes at most the `share` of its requests, as claimed by `who` in `where`.

    The share is above 0 and below 1. `work` is set if the published work differs from the work
    here, and describes how.
    """

    name: str
    who: str
    where: str
    statement: str
    case: Case
    share: float
    conditions: str
    work: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share={self.share!r} of {self.name!r} is not between 0 and 1")


def cases_of_claims(cases: Iterable[Case], claims: Sequence[Claim]) -> tuple[Case, ...]:
    """Return the cases that at least one claim compares."""
    about = [case for claim in claims for case in (claim.one, claim.other)]
    return tuple(case for case in cases if case in about)
