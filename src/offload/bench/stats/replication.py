"""Replication: compare a measured confidence interval with a published ratio."""

from __future__ import annotations

HOLDS, IN_PART, DOES_NOT = "holds", "holds in part", "does not hold"
NOT_COMPARABLE, UNRESOLVED = "not comparable", "unresolved"
TOLERANCE = 1.1  # factor by which intervals are widened; a smaller ratio counts as no difference


def classify_replication(claimed: float | None, alike: bool, low: float, high: float) -> str:
    """Return the verdict on a `claimed` ratio (None: any ratio above 1) for a measured interval.

    holds: the interval is above 1 and, multiplied by TOLERANCE, reaches the claimed ratio; or it
    contains 1, is narrower than TOLERANCE^2, and contains the claimed ratio if widened by
    TOLERANCE;
    holds in part: the direction is the same, but the difference is smaller;
    does not hold: the direction is opposite, or the interval contains 1 but no ratio that is closer
    to the claimed one than to 1.
    With `alike` the claim is that there is no difference.
    """
    if alike:
        return _alike(claimed or 1.0, low, high)
    if claimed is not None and claimed < 1:
        claimed, low, high = 1 / claimed, 1 / high, 1 / low
    if claimed is None:
        claimed = 1.0
    is_narrow = high / low <= TOLERANCE**2
    if low > 1:
        return HOLDS if high * TOLERANCE >= claimed else IN_PART
    if is_narrow and low / TOLERANCE <= claimed <= high * TOLERANCE and claimed > 1:
        return HOLDS
    if high < 1 or high <= max(TOLERANCE, claimed**0.5):
        return DOES_NOT
    return UNRESOLVED


def explain_replication(
    verdict: str, claimed: float | None, alike: bool, low: float, high: float
) -> str:
    """Return the reason for the `verdict` of `classify_replication`, in a few words."""
    if alike:
        known = {HOLDS: "no difference that matters", DOES_NOT: "there is a difference"}
        return known.get(verdict, "more rounds are needed")
    if verdict == HOLDS:
        is_more = claimed is not None and (
            low / TOLERANCE > claimed > 1 or high * TOLERANCE < claimed < 1
        )
        as_claimed = "larger, as claimed" if claimed is None else "as published"
        return "the difference is larger here" if is_more else as_claimed
    return {
        IN_PART: "the same direction, a smaller difference",
        DOES_NOT: "the other direction" if high < 1 or low > 1 else "no difference here",
    }.get(verdict, "the interval is too wide")


def _alike(claimed: float, low: float, high: float) -> str:
    if high / low <= TOLERANCE**2 and (
        low / TOLERANCE <= claimed <= high * TOLERANCE
        or (low >= 1 / TOLERANCE and high <= TOLERANCE)
    ):
        return HOLDS
    return DOES_NOT if low > TOLERANCE or high < 1 / TOLERANCE else UNRESOLVED
