"""Non-inferiority test: whether a rate lost more than a margin against its baseline.

The baseline is A, the new rate B, and a ratio is B over A. With a margin of 0.05, B may lose 5 %.
Two one-sided t tests compare the log ratio with the margin: one can show that the loss is larger
than the margin, the other that it is smaller. If neither does, the result is undecided: a wide
interval never passes.

Source: Blackwelder 1982, Proving the null hypothesis in clinical trials. The t tests are those of
Student 1908 and, for runs at different times, of Welch 1947.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.stats import control_variate, student_t

LOSS, NO_LOSS, UNDECIDED = "loss", "no loss", "undecided"
TINY = 1e-9  # log ratio: a smaller distance from the margin counts as 0
POWER = 0.95  # probability of a decision after the number of values that `additional` returns


@dataclass(frozen=True)
class LogRatio:
    """An estimate of log(B / A): its mean, standard error, degrees of freedom and values."""

    mean: float
    error: float
    df: float
    count: int

    @property
    def ratio(self) -> float:
        """B over A."""
        return math.exp(self.mean)

    def low(self, level: float) -> float:
        """Return the lower end of the ratio's interval, with the one-sided error rate `level`."""
        return student_t.exp(self.mean + student_t.quantile(level, self.df) * self.error)

    def high(self, level: float) -> float:
        """Return the upper end of the ratio's interval, with the one-sided error rate `level`."""
        return student_t.exp(self.mean - student_t.quantile(level, self.df) * self.error)


def paired(
    pairs: Sequence[tuple[float, float]], work_s: Sequence[tuple[float, float]] | None = None
) -> LogRatio | None:
    """Return the log ratio of rates (A, B) that were measured together; None below two pairs.

    `work_s` are the CPU times of fixed work during the measurements of each pair. With them, the
    ratio is corrected for the speed of the CPUs (see `control_variate`).
    """
    if len(pairs) < 2:
        return None
    found = control_variate.of_pairs(pairs, work_s)
    return LogRatio(found.value, found.error, found.freedom, len(pairs))


def unpaired(one: Sequence[float], other: Sequence[float]) -> LogRatio | None:
    """Return the log ratio of rates A and B, measured at different times; None below two each."""
    if min(len(one), len(other)) < 2:
        return None
    a, b = ([math.log(rate) for rate in rates] for rates in (one, other))
    parts = [statistics.variance(logs) / len(logs) for logs in (a, b)]
    error = math.sqrt(sum(parts))
    shares = [part**2 / (len(logs) - 1) for part, logs in zip(parts, (a, b), strict=True)]
    df = sum(parts) ** 2 / sum(shares) if error else min(len(a), len(b)) - 1
    return LogRatio(statistics.fmean(b) - statistics.fmean(a), error, df, min(len(a), len(b)))


def p_of_loss(found: LogRatio, margin: float, slack: float = 0.0) -> float:
    """Return the one-sided p value of "the loss is at most `margin`": small for a larger loss.

    `slack`, a share, is a possible error of the ratio in addition to its standard error.
    """
    excess = found.mean + math.log1p(slack) - math.log1p(-margin)
    if found.error == 0:
        return 0.0 if excess < 0 else 1.0
    two_sided = student_t.two_sided_p(excess / found.error, found.df)
    return two_sided / 2 if excess < 0 else 1 - two_sided / 2


def classify(low: float, high: float, margin: float) -> str:
    """Return LOSS or NO_LOSS if the whole interval of a ratio is on one side, else UNDECIDED."""
    if high < 1 - margin:
        return LOSS
    return NO_LOSS if low > 1 - margin else UNDECIDED


def additional(found: LogRatio, margin: float, level: float) -> int | None:
    """Return how many further values decide the test with a probability of 95 %.

    None if the ratio equals the margin, because then no number of values is sufficient.

    N = ((z + 1.64) s / d)^2 in total: s is the standard deviation of the log ratios, d the distance
    of the ratio from the margin, both as logarithms, and z the normal quantile of the test's level.
    """
    distance = abs(found.mean - math.log1p(-margin))
    if distance < TINY:
        return None
    sd = found.error * math.sqrt(found.count)
    z = student_t.normal_quantile(1 - level) + student_t.normal_quantile(POWER)
    return max(1, math.ceil((z * sd / distance) ** 2) - found.count)
