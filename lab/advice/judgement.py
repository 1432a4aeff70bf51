"""The requirements on advice: compare its answers with the measured truth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lab.advice.choice import Choice, Confirmation, compare_answers
from lab.advice.recorded_answer import RecordedAnswer, RecordedRatio, first_answers
from lab.advice.truth import Truth, short_name
from offload.bench.advice import latency
from offload.bench.advice.certainty import PREDICTED, SURE
from offload.bench.advice.strategies import Size
from offload.bench.stats import student_t
from offload.bench.stats.paired_test import DISTURBED
from offload.units import percent

BEST_SHARE = 0.90  # minimum share of choices that are the best, or not distinguishable from it
BEST_UPPER_END = 0.95  # value that the upper end of the 95 % interval of this share must reach
MEAN_SHARE, WORST_SHARE = 0.98, 0.90  # minimum rate of a choice over the best: mean, and each
NEAR_RATE, NEAR_P95 = 0.10, 0.25  # maximum relative errors of a near rate or percentile
NEAR_SHARE = 0.80  # minimum share of near values
MEDIAN_ERROR = 0.05  # maximum median of the relative errors of predicted rates
COVERAGE = 0.90  # level of the intervals of ratios: as many of them must contain the truth
UNKNOWN_SHARE = 0.10  # maximum share of functions without a measured advice
WRONG_SHARE = 0.01  # maximum share of answers that are SURE, but not the best choice
LONGEST_ANSWER_S = 120.0  # maximum time until an answer
SAME_SHARE = 0.9  # minimum share of functions with the same strategy in all their answers


@dataclass(frozen=True)
class Requirement:
    """One line of the table: what was measured, what is required, and whether it is met.

    `passed` is None if it is not known.
    """

    name: str
    measured: str
    required: str
    passed: bool | None


def requirements(
    truths: Mapping[str, Truth],
    answers: Sequence[RecordedAnswer],
    confirmations: Mapping[str, Confirmation],
    ties: Collection[str] = (),
) -> list[Requirement]:
    """Return every requirement on the answers of one fold.

    Only the first answer to each function counts, except for the time of the longest answer, and
    for the requirement on repeated answers. The latter does not apply to `ties`, the functions for
    which no strategy is certainly the best. A function of `truths` without an answer, because its
    advice failed, has no measured advice, and its choice is not the best.
    """
    longest, repeated = _time(answers), _consistency(truths, answers, ties)
    answers = first_answers(answers)
    found = compare_answers(truths, answers, confirmations)
    return [
        _best(found, len(truths.keys() - {each.task for each in found})),
        *_rate_shares(found),
        *_predictions(answers),
        _response_times(answers, confirmations),
        _coverage(truths, answers),
        _unknown(answers, len(truths.keys() - {each.task for each in answers})),
        _wrong(found, answers),
        longest,
        repeated,
    ]


def _best(choices: Sequence[Choice], missing: int) -> Requirement:
    """Count the best choices; `missing` is the number of functions without a choice."""
    found, total = sum(each.is_best is True for each in choices), len(choices) + missing
    required = f"{percent(BEST_SHARE)}, interval to {percent(BEST_UPPER_END)}"
    if not total:
        return Requirement("best choice, or tied", "unknown", required, None)
    _, high = student_t.binomial_interval(found, total)
    passed = found >= BEST_SHARE * total and high >= BEST_UPPER_END
    return Requirement("best choice, or tied", _share(found, total), required, passed)


def _rate_shares(choices: Sequence[Choice]) -> list[Requirement]:
    """Check the mean and the lowest rate of the choices, each over the best rate."""
    least_mean, least = percent(MEAN_SHARE), percent(WORST_SHARE)
    if not choices:
        return [Requirement("share of the best rate", "unknown", least_mean, None)]
    shares = [each.share for each in choices]
    mean = statistics.fmean(shares)
    measured = percent(mean, 1)
    if len(shares) > 1:
        low, high = student_t.mean_interval(shares)
        measured += f" ({_interval((low, min(high, 1.0)), 1)})"
    worst = min(choices, key=lambda each: each.share)
    interval = f" ({_interval(worst.interval, 1)})" if worst.interval else ""
    return [
        Requirement("mean share of the best rate", measured, least_mean, mean >= MEAN_SHARE),
        Requirement(
            "lowest share of the best rate",
            f"{percent(worst.share, 1)}{interval}",
            least,
            worst.share >= WORST_SHARE,
        ),
    ]


def _predictions(answers: Sequence[RecordedAnswer]) -> list[Requirement]:
    """Check the errors of the predicted rates relative to the measured ones."""
    errors = [abs(each.predicted_rate / each.rate - 1) for each in answers if each.rate]
    name, required = f"predicted rate within {percent(NEAR_RATE)}", percent(NEAR_SHARE)
    if not errors:
        return [Requirement(name, "unknown", required, None)]
    near = sum(error <= NEAR_RATE for error in errors)
    median = statistics.median(errors)
    is_near, is_small = near >= NEAR_SHARE * len(errors), median <= MEDIAN_ERROR
    found, largest = student_t.median_interval(errors), percent(MEDIAN_ERROR)
    measured = percent(median, 1) + (f" ({_interval(found, 1)})" if found else "")
    return [
        Requirement(name, _share(near, len(errors)), required, is_near),
        Requirement("median error of the predicted rate", measured, largest, is_small),
    ]


def _response_times(
    answers: Sequence[RecordedAnswer], confirmations: Mapping[str, Confirmation]
) -> Requirement:
    """Compare the 95th percentiles of the answers with those of the second measurement."""
    pairs = [
        (first, second)
        for answer in answers
        if answer.task in confirmations
        for first, second in zip(answer.p95_s, confirmations[answer.task].p95_s, strict=False)
        if first and second
    ]
    loads = " and ".join(percent(share) for share in latency.LOADS)
    name = f"p95 at {loads} within {percent(NEAR_P95)}"
    if not pairs:
        return Requirement(name, "unknown", percent(NEAR_SHARE), None)
    near = sum(abs(first / second - 1) <= NEAR_P95 for first, second in pairs)
    passed = near >= NEAR_SHARE * len(pairs)
    return Requirement(name, _share(near, len(pairs)), percent(NEAR_SHARE), passed)


def _coverage(truths: Mapping[str, Truth], answers: Sequence[RecordedAnswer]) -> Requirement:
    """Check the share of ratios that agree with the truth at a level of COVERAGE."""
    level = percent(COVERAGE)
    name, required = f"intervals at {level}", f"interval contains {level}"
    found = [
        covered
        for answer in answers
        if answer.task in truths
        for ratio in answer.ratios
        if (covered := _is_covered(truths[answer.task], answer.size, ratio)) is not None
    ]
    if not found:
        return Requirement(name, "unknown", required, None)
    low, high = student_t.binomial_interval(sum(found), len(found))
    measured = _share(sum(found), len(found))
    return Requirement(name, measured, required, low <= COVERAGE <= high)


def _is_covered(truth: Truth, chosen: Size, found: RecordedRatio) -> bool | None:
    """Whether a ratio agrees with that of the truth within their errors.

    The test is that of Welch 1947, The generalization of Student's problem. Return None if the
    truth has no such ratio, because its grid does not have all sizes.
    """
    other = found.strategy, found.workers
    if not {chosen, other} <= truth.windows.keys() or found.rounds < 2:
        return None
    logs = [math.log(b / a) for a, b in truth.pairs(chosen, other)]
    if len(logs) < 2:
        return None
    parts = [
        (found.sd**2 / found.rounds, found.rounds),
        (statistics.variance(logs) / len(logs), len(logs)),
    ]
    variance = sum(part for part, _ in parts)
    difference = abs(math.log(found.ratio) - statistics.fmean(logs))
    if not variance:
        return difference == 0
    df = variance**2 / sum(part**2 / (n - 1) for part, n in parts)
    return difference <= student_t.quantile((1 + COVERAGE) / 2, df) * math.sqrt(variance)


def _unknown(answers: Sequence[RecordedAnswer], missing: int) -> Requirement:
    """Count the functions without a measured advice; `missing` have no answer at all."""
    unknown = missing + sum(each.sure in (DISTURBED, PREDICTED) for each in answers)
    passed = unknown <= UNKNOWN_SHARE * (len(answers) + missing)
    measured = _share(unknown, len(answers) + missing)
    return Requirement("no measured advice", measured, f"at most {percent(UNKNOWN_SHARE)}", passed)


def _wrong(choices: Sequence[Choice], answers: Sequence[RecordedAnswer]) -> Requirement:
    """Count the choices that are not the best although their answers are SURE."""
    sure = {each.task for each in answers if each.sure == SURE}
    wrong = sum(each.is_best is False and each.task in sure for each in choices)
    share = wrong / len(answers) if answers else 0.0
    measured = _share(wrong, len(answers))
    required = f"at most {percent(WRONG_SHARE)}"
    return Requirement("wrong without a warning", measured, required, share <= WRONG_SHARE)


def _consistency(
    truths: Mapping[str, Truth], answers: Sequence[RecordedAnswer], ties: Collection[str]
) -> Requirement:
    """Check that all answers to a function have the same strategy, unless it is a tie."""
    found: dict[str, set[str]] = {}
    for task in {each.task for each in answers if each.number > 1} & truths.keys():
        if not truths[task].is_tie and task not in ties:
            found[task] = {each.strategy for each in answers if each.task == task}
    name, required = "same strategy in each answer", percent(SAME_SHARE)
    if not found:
        return Requirement(name, "not repeated", required, None)
    other = [short_name(task) for task, strategies in found.items() if len(strategies) > 1]
    same = len(found) - len(other)
    names = [f"not {task}" for task in sorted(other)]
    measured = _share(same, len(found), names)
    return Requirement(name, measured, required, same >= SAME_SHARE * len(found))


def _time(answers: Sequence[RecordedAnswer]) -> Requirement:
    """Check the time until the longest answer, in s."""
    longest = max((each.seconds for each in answers), default=0.0)
    passed = longest <= LONGEST_ANSWER_S if answers else None
    return Requirement("longest answer", f"{longest:.0f} s", f"{LONGEST_ANSWER_S:.0f} s", passed)


def _share(found: int, total: int, names: Sequence[str] = ()) -> str:
    """Render a count with the exact 95 % interval of its share: `9 of 10 (55 to 100 %)`."""
    if not total:
        return "0 of 0"
    interval = _interval(student_t.binomial_interval(found, total))
    return f"{found} of {total} ({', '.join([interval, *names])})"


def _interval(ends: tuple[float, float], digits: int = 0) -> str:
    return f"{100 * ends[0]:.{digits}f} to {percent(ends[1], digits)}"
