"""The judgement on the method: one line a claim."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from offload.bench.experiments.method_check import Claim

WORDS = {True: "passed", False: "failed", None: "not known"}


def text(found: Sequence[Claim]) -> str:
    """Lay the claims out."""
    lines = [(claim.name, claim.found, claim.asked, WORDS[claim.passed]) for claim in found]
    return tabulate(lines, ("Claim", "Found", "Asked", ""), disable_numparse=True)
