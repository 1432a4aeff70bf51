"""A measured ratio is weighted with the predicted one by their errors."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from offload.bench.analysis.weighting import (
    MODEL_SD,
    SIZE_SD,
    chance_of_being_faster,
    weighted_ratio,
)
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


def test_the_chance_of_being_faster_has_the_share_of_true_ratios_above_one() -> None:
    noise, source = 0.2, random.Random(19)
    chances, shares = [], []
    for _ in range(4000):
        predicted = source.gauss(0.0, 0.2)
        truth = source.gauss(predicted, MODEL_SD)
        logs = [source.gauss(truth, noise) for _ in range(3)]
        measured = paired_test.compare([(1.0, math.exp(value)) for value in logs])
        chance = chance_of_being_faster(measured, math.exp(predicted), noise)
        assert chance is not None
        chances.append(chance)
        shares.append(truth > 0)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)):
        inside = [(c, s) for c, s in zip(chances, shares, strict=True) if low <= c < high]
        expected, found = (statistics.fmean(column) for column in zip(*inside, strict=True))
        assert found == pytest.approx(expected, abs=4 * math.sqrt(0.25 / len(inside)))


def test_a_smaller_error_of_the_prediction_gives_it_more_weight() -> None:
    measured = paired_test.compare([(10.0, 12.0), (10.0, 10.0), (10.0, 14.0)])
    ratios = [weighted_ratio(measured, 1.0, model_sd) for model_sd in (0.02, SIZE_SD, MODEL_SD)]
    assert 1.0 < ratios[0] < ratios[1] < ratios[2] < (measured.ratio or 0.0)
    sd = measured.sd or 0.0
    chances = [chance_of_being_faster(measured, 1.0, sd, SIZE_SD, least) for least in (1.0, 1.05)]
    assert 0.5 < chances[1] < chances[0] < 1.0


def test_the_chance_without_noise_is_certain() -> None:
    measured = paired_test.compare([(10.0, 20.0)] * 3)
    assert chance_of_being_faster(measured, 0.5, 0.0, least=2.1) == 0.0
    assert chance_of_being_faster(paired_test.compare([(10.0, 10.0)] * 3), 1.0, 0.0) == 0.5
    assert chance_of_being_faster(measured, 0.5, 0.0) == 1.0
    assert chance_of_being_faster(paired_test.compare([(20.0, 10.0)] * 3), 2.0, 0.0) == 0.0
    assert chance_of_being_faster(paired_test.compare([]), 2.0, 0.1) is None
