"""How sure an answer is, and which candidates may be as fast as the chosen one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offload.bench.analysis import disturbance
from offload.bench.analysis.comparison import Comparison
from offload.bench.records.record import Record
from offload.bench.stats.paired_test import (
    DISTURBED,
    FASTER,
    SAME,
    SLOWER,
    TINY,
    Verdict,
)
from offload.flags import Flag

SURE, LIKELY, TIE, PREDICTED = "sure", "likely", "tie", "predicted"  # or DISTURBED
ACCEPTED_LOSS = 0.03  # of rate, for a simpler choice, if the loss is not certain


def of_answer(
    tie: Sequence[str], compared: Iterable[Comparison | None], disturbed: Flag | None
) -> str:
    """Return SURE, LIKELY, TIE or DISTURBED, from the comparisons with the chosen candidate.

    Without a comparison, the answer is never SURE.
    """
    if disturbed is not None:
        return DISTURBED
    if len(tie) > 1:
        return TIE
    known = [found for found in compared if found is not None]
    return SURE if known and not any(map(is_open, known)) else LIKELY


def is_tie(verdict: Verdict, ratio: float | None) -> bool:
    """Whether a candidate may be as fast as the fastest one; `ratio` is its rate over that one's.

    An unknown ratio is no tie.
    """
    if verdict.outcome == FASTER:
        return True
    return verdict.outcome != SLOWER and is_near(ratio)


def is_near(ratio: float | None) -> bool:
    """Whether a ratio of rates shows a loss of at most ACCEPTED_LOSS."""
    return ratio is not None and ratio >= 1 - ACCEPTED_LOSS


def is_open(found: Comparison | None) -> bool:
    """Whether a candidate may still be faster than the chosen one."""
    return found is not None and found.verdict.outcome not in (SLOWER, SAME, TINY)


def find_disturbance(
    compared: Iterable[Comparison | None], windows: Sequence[Record]
) -> Flag | None:
    """Return why the measurement of the chosen candidate is invalid; None if it is valid.

    `compared` are the comparisons with the other candidates, and `windows` are those of the chosen
    one.
    """
    invalid = (found.disturbed for found in compared if found and found.disturbed)
    return next(invalid, None) or disturbance.between(windows, [])
