"""The claims of a published benchmark, as data: ratios, shares, figures to audit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offload.suites import Case

RATE, P50, MEMORY = "rate", "response_p50_s", "memory_pss_mib"
# Record fields that claims may compare, and the noun for their ratio in reports.
FIGURES = {
    RATE: "",
    "response_mean_s": "time",
    P50: "time",
    "response_p99_s": "time",
    MEMORY: "memory",
}


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
