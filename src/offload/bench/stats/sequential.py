"""Group-sequential designs: at which sample sizes a run is analysed, and at which level.

A run that is analysed repeatedly and stops at the first significant result has a higher error rate
than a single analysis. Haybittle 1971, Repeated assessment of results in clinical trials of cancer
treatment, and Peto et al. 1976 therefore stop early at a very strict level only. The last analysis,
on which most verdicts rest, then has nearly the level of a single one. If the time budget of a run
ends before the last sample size, its last analysis is at the size that it reached.

With t tests the overall error rate is 5.0 % (NORMAL), 4.6 % (QUICK) and 5.2 % for runs of QUICK
with a time budget that ends after 14 rounds [10^6 simulated runs each; test_sequential.py in
tests/bench/stats repeats them]. The level of the intervals of rates is Pocock's (1977) for analyses
at all these sizes; test_estimate.py there checks that intervals cover the rate in 95 % of runs.

The levels of the analyses of GATE add up to the error rate of a gate (Bonferroni), and half of it
is for the last analysis. This is an upper limit however the analyses depend on each other, and for
any degrees of freedom. With ratios that are corrected for the speed of the CPUs it is approximate
(see `control_variate`).
"""

from __future__ import annotations

from dataclasses import dataclass

LEVEL, EARLY = 0.040, 0.005  # two-sided alpha of the last analysis, and of each earlier one
GATE_ERROR = 0.01  # one-sided error rate of a gate, in either direction
# The first analysis is after 10 rounds. If the rate of a server is bimodal (each process is fast or
# slow by chance), the t test of fewer rounds rejects too often: of simulated gates with 10 such
# cases, all at the limit, 2.3 % were red with a first analysis after 5 rounds, and 1.2 % after 10
# [1,200 gates each].
GATE_COUNTS = (10, 20, 40, 80, 160)


@dataclass(frozen=True)
class SequentialDesign:
    """Sample sizes in ascending order, and the two-sided alpha of the analyses.

    A run stops early if its ratios are significant at `early`. `level` is that of the last analysis
    and of the printed intervals of ratios. `rate_level` is that of the intervals of rates. It is
    at most `level`, because a run stops when these intervals are narrow, even if only by chance.
    Raise ValueError for missing or unordered sample sizes, and for an invalid level.
    """

    counts: tuple[int, ...]
    rate_level: float
    level: float = LEVEL
    early: float = EARLY

    def __post_init__(self) -> None:
        if not self.counts or list(self.counts) != sorted({*self.counts}) or self.counts[0] < 2:
            raise ValueError(f"counts must be ascending from 2 or more, not {self.counts}")
        if not 0 < self.early <= self.rate_level <= self.level < 1:
            levels = f"{self.early}, {self.rate_level} and {self.level}"
            raise ValueError(f"the levels must ascend between 0 and 1, not {levels}")

    @property
    def last(self) -> int:
        """The largest sample size."""
        return self.counts[-1]

    def is_analysis(self, n: int) -> bool:
        """Return whether a sample of size `n` is analysed."""
        return n in self.counts

    def stopping_level(self, n: int) -> float:
        """Return the level at which the analysis of a sample of size `n` may end a run."""
        return self.early if n < self.last else self.level


NORMAL = SequentialDesign((5, 10, 20, 40), 0.0182)  # rounds of a block
QUICK = SequentialDesign((3, 5, 7), 0.0234)  # rounds of a block, with `quick`
GATE = SequentialDesign(  # rounds of a gate
    GATE_COUNTS,
    rate_level=GATE_ERROR,
    level=GATE_ERROR,
    early=GATE_ERROR / (len(GATE_COUNTS) - 1),
)


def design(is_quick: bool) -> SequentialDesign:
    """Return the design of a run."""
    return QUICK if is_quick else NORMAL
