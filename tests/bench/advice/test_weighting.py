"""A measured ratio is weighted with the predicted one by their errors."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from offload.bench.advice.weighting import MODEL_SD, weighted_ratio
from offload.bench.stats import paired_test


def test_a_ratio_without_noise_is_that_of_the_measurement() -> None:
    measured = paired_test.compare([(10.0, 20.0)] * 3)
    assert weighted_ratio(measured, 0.5) == pytest.approx(2.0)


def test_equal_errors_have_equal_weights() -> None:
    deviation = MODEL_SD * math.sqrt(2)  # of each of two pairs: the error of their mean is MODEL_SD
    half = deviation / math.sqrt(2)
    measured = paired_test.compare([(1.0, 4 * math.exp(half)), (1.0, 4 * math.exp(-half))])
    assert measured.sd == pytest.approx(deviation)
    assert weighted_ratio(measured, 1.0) == pytest.approx(2.0)


def test_an_unknown_error_leaves_the_measured_ratio() -> None:
    assert weighted_ratio(paired_test.compare([(10.0, 20.0)]), 0.5) == pytest.approx(2.0)
    assert weighted_ratio(paired_test.compare([]), 0.5) is None


def test_the_weighted_ratio_is_nearer_to_the_truth_than_each_of_its_parts() -> None:
    noise, source = 0.3, random.Random(18)
    errors: dict[str, list[float]] = {"measured": [], "predicted": [], "weighted": []}
    for _ in range(2000):
        truth = source.gauss(0.0, 0.3)
        logs = [source.gauss(truth, noise) for _ in range(5)]
        measured = paired_test.compare([(1.0, math.exp(value)) for value in logs])
        predicted = math.exp(source.gauss(truth, MODEL_SD))
        weighted = weighted_ratio(measured, predicted)
        assert weighted is not None and measured.ratio is not None
        errors["measured"].append(math.log(measured.ratio) - truth)
        errors["predicted"].append(math.log(predicted) - truth)
        errors["weighted"].append(math.log(weighted) - truth)
    spread = {name: statistics.pstdev(found) for name, found in errors.items()}
    assert spread["weighted"] < 0.9 * min(spread["measured"], spread["predicted"])
