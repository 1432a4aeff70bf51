"""The ratio of two rates by their measurement and their prediction, each weighted by its error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from offload.bench.analysis import comparison
from offload.bench.records.record import Record
from offload.bench.stats.paired_test import Verdict

# Standard deviation of the error of a predicted log-ratio of two close strategies. Measured: 0.14
# (29 functions of folds 1 to 3) and 0.31 (10 short functions); see lab/advice.rst.
MODEL_SD = 0.2
# The same for two sizes of one strategy. Measured: 0.11 (289 pairs, half below 0.04).
SIZE_SD = 0.1


def weighted_ratio(measured: Verdict, predicted: float, model_sd: float = MODEL_SD) -> float | None:
    """Return the most probable ratio of two rates; None if it was not measured.

    `measured` is their comparison, and `predicted` the ratio of their predicted rates, whose
    logarithm has the standard deviation `model_sd`. With fewer than two pairs, the error of the
    measurement is unknown, and the result is the measured ratio.

    Source: the mean of two independent normal estimates of the same value, weighted by their
    inverse variances, of log-ratios (Cochran 1937, Supplement to the Journal of the Royal
    Statistical Society 4:1).
    """
    if measured.ratio is None or measured.sd is None:
        return measured.ratio
    weight = _weight(measured.sd**2 / measured.pairs, model_sd)
    return math.exp(_weighted_log(measured.ratio, predicted, weight))


def ratio_of_windows(
    one: Sequence[Record], other: Sequence[Record], predicted: float, model_sd: float = MODEL_SD
) -> float | None:
    """Return the weighted ratio of the rate of `other` to that of `one`; None if not measured."""
    return weighted_ratio(comparison.compare(one, other).verdict, predicted, model_sd)


def chance_of_being_faster(
    measured: Verdict,
    predicted: float,
    sd: float,
    model_sd: float = MODEL_SD,
    least: float = 1.0,
) -> float | None:
    """Return the probability that the true ratio of two rates is above `least`.

    None if it was not measured. `sd` is the standard deviation of a measured log-ratio of one
    round. The weighted log-ratio has a normal error with the variance
    1 / (1 / model_sd^2 + rounds / sd^2).
    """
    if measured.ratio is None:
        return None
    variance = sd**2 / measured.pairs
    weight = _weight(variance, model_sd)
    mean = _weighted_log(measured.ratio, predicted, weight) - math.log(least)
    if not variance:
        return 0.5 if mean == 0 else float(mean > 0)
    return statistics.NormalDist().cdf(mean / math.sqrt(weight * variance))


def _weighted_log(measured: float, predicted: float, weight: float) -> float:
    """Return the weighted log-ratio; `weight` is that of the measured ratio."""
    return weight * math.log(measured) + (1 - weight) * math.log(predicted)


def _weight(variance: float, model_sd: float) -> float:
    """Return the weight of a measured log-ratio, whose error has this variance."""
    return model_sd**2 / (model_sd**2 + variance)
