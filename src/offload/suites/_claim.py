"""What a published benchmark claims, as data: ratios, shares, majorities, figures to be audited."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offload.suites import Case

RATE, P50, MEMORY = "rate", "response_p50_s", "memory_pss_mib"
# Fields of a record that a claim may be about, and what a ratio of each is of.
FIGURES = {
    RATE: "",
    "response_mean_s": "time",
    P50: "time",
    "response_p99_s": "time",
    MEMORY: "memory",
}


@dataclass(frozen=True)
class Claim:
    """`other` has `ratio` times the `figure` of `one`, as `who` says `where`.

    `says` is that in our own words. Without a `ratio` it is only claimed that the figure is larger.
    With `alike` the claim is that there is no difference that matters, and the ratio is what was
    published with it. `figure` is one of FIGURES. The answers of both cases must have the same
    content; `differs` says in words why they need not. `work` names published work that was not
    the same in both, or not what is done here, so that no ratio of ours compares. `conditions` are
    those that the ratio was published with.
    """

    name: str
    who: str
    where: str
    says: str
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
    """A published rate in requests a second, and what bounds it.

    A request keeps one of `slots` in each process (None: as many as there are users) for
    `service_s`; None where that is not known. `mean_s` is the published mean response time, and
    `body_bytes` the published length of an answer.
    """

    name: str
    rate: float
    service_s: float | None = None
    slots: int | None = None
    mean_s: float | None = None
    body_bytes: int | None = None


@dataclass(frozen=True)
class Audit:
    """Published figures that `users` and `processes` must explain; what does not fit is refuted.

    Figures whose answers have other lengths are not comparable with each other.
    """

    name: str
    who: str
    where: str
    says: str
    figures: tuple[Figure, ...]
    users: int
    processes: int = 1


@dataclass(frozen=True)
class Availability:
    """`case` completes no more than the `share` of its requests, as `who` says `where`.

    The share is above 0 and below 1. `work` names published work that is not what is done here.
    """

    name: str
    who: str
    where: str
    says: str
    case: Case
    share: float
    conditions: str
    work: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share={self.share!r} of {self.name!r} is not between 0 and 1")


@dataclass(frozen=True)
class Majority:
    """In most of the claims named in `of`, `other` has more than `one`, as `who` says `where`."""

    name: str
    who: str
    where: str
    says: str
    of: tuple[str, ...]


def claimed(cases: Iterable[Case], claims: Sequence[Claim]) -> tuple[Case, ...]:
    """Give those of the cases that some claim is about."""
    about = [case for claim in claims for case in (claim.one, claim.other)]
    return tuple(case for case in cases if case in about)
