"""What an interval that was measured means for a ratio that was claimed."""

from __future__ import annotations

HOLDS, IN_PART, DOES_NOT = "holds", "holds in part", "does not hold"
NOT_COMPARABLE, UNRESOLVED = "not comparable", "unresolved"
SLACK = 1.1  # by which an interval is widened, and within which there is no difference


def word_of(claimed: float | None, alike: bool, low: float, high: float) -> str:
    """Say what an interval of a ratio here means for the one that was claimed (None: only more).

    holds: the interval, widened by SLACK, contains the claim, or lies wholly farther from 1 on the
    same side; holds in part: the same direction, another size; does not hold: the other direction,
    or no difference where one was claimed: the interval contains 1, and no ratio that is nearer to
    the claimed one than to 1. With `alike` no difference is what was claimed.
    """
    if alike:
        return _alike(claimed or 1.0, low, high)
    if claimed is not None and claimed < 1:
        claimed, low, high = 1 / claimed, 1 / high, 1 / low
    if claimed is None:
        claimed = 1.0
    is_narrow = high / low <= SLACK**2
    if low > 1:
        return HOLDS if high * SLACK >= claimed else IN_PART
    if is_narrow and low / SLACK <= claimed <= high * SLACK and claimed > 1:
        return HOLDS
    if high < 1 or high <= max(SLACK, claimed**0.5):
        return DOES_NOT
    return UNRESOLVED


def reason_of(word: str, claimed: float | None, alike: bool, low: float, high: float) -> str:
    """Say in a few words why `word_of` said `word`."""
    if alike:
        known = {HOLDS: "no difference that matters", DOES_NOT: "there is a difference"}
        return known.get(word, "more visits must tell")
    if word == HOLDS:
        is_more = claimed is not None and (low / SLACK > claimed > 1 or high * SLACK < claimed < 1)
        as_said = "larger, as claimed" if claimed is None else "as published"
        return "the difference is larger here" if is_more else as_said
    return {
        IN_PART: "the same direction, a smaller difference",
        DOES_NOT: "the other direction" if high < 1 or low > 1 else "no difference here",
    }.get(word, "the interval is too wide")


def _alike(claimed: float, low: float, high: float) -> str:
    if high / low <= SLACK**2 and (
        low / SLACK <= claimed <= high * SLACK or (low >= 1 / SLACK and high <= SLACK)
    ):
        return HOLDS
    return DOES_NOT if low > SLACK or high < 1 / SLACK else UNRESOLVED
