"""The answer is chosen by the measured rates, and reports how certain it is."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.advice import answer, certainty, latency, question_file, steps
from offload.bench.advice.answer import Answer
from offload.bench.advice.inputs.probe import KEPT_PAGES, PROCESSES
from offload.bench.advice.prediction import limits
from offload.bench.advice.prediction.model import Prediction
from offload.bench.advice.question_file import OtherPython
from offload.bench.advice.strategies import STRATEGIES, Size
from offload.cli import arguments
from offload.errors import StorageError
from offload.loads.engine.figures.histogram import histogram
from offload.registry import catalog
from offload.reports.advice import (
    answer_json,
    answer_text,
    changes,
    names,
    next_steps,
    reasons,
    response_times,
    warnings,
)
from offload.suites import Case
from tests import ROOT
from tests.bench.advice.answers import (
    CASE,
    PYTHON,
    QUESTION,
    WILD,
    answered,
    loads,
    measured,
    planned,
    times,
)
from tests.bench.advice.probes import coroutine, model
from tests.bench.advice.scenarios import SCENARIOS, SLEEP
from tests.records import changed, new_record


def answer_of(*rates: float, sizes: Sequence[Size] = (), **values: object) -> Answer:
    """Return the answer to candidates with these rates."""
    plan = planned(*sizes or (("prefork", 2), ("pipes", 2), ("threads", 2))[: len(rates)])
    found = {place: times(rate) for place, rate in enumerate(rates)}
    return answer.evaluate(QUESTION, plan, measured(plan, found, **values))


def words(found: Answer) -> str:
    """Return the text of an answer in one line."""
    return " ".join(answer_text.text(found).split())


def test_the_fastest_candidate_is_chosen_beyond_doubt() -> None:
    found = answer_of(30.0, 40.0, 20.0)
    assert (found.chosen.strategy, found.chosen.workers, found.tie) == ("pipes", 2, ("pipes",))
    assert [each.strategy for each in found.others] == ["prefork", "threads"]
    ratio = found.others[1].compared
    assert ratio is not None and ratio.verdict.ratio == pytest.approx(0.5)
    assert found.sure == certainty.SURE


def test_of_equal_candidates_the_simplest_is_chosen() -> None:
    found = answer_of(40.0, 39.8, 20.0)
    assert (found.chosen.strategy, set(found.tie)) == ("pipes", {"prefork", "pipes"})
    assert found.sure == certainty.TIE
    assert "no clear difference between prefork and pipes; pipes is the simplest." in words(found)
    sizes = answer_of(40.0, 39.9, sizes=(("pipes", 4), ("pipes", 2)))
    assert (sizes.chosen.workers, sizes.tie) == (2, ("pipes",))
    assert sizes.sure == certainty.SURE


def test_the_fastest_of_several_sizes_by_chance_does_not_make_its_strategy_the_fastest() -> None:
    rates = {("pipes", 16): 40.0, ("prefork", 8): 38.0, ("prefork", 16): 41.5}
    found = answered(PYTHON, rates, factors=WILD)
    assert (found.chosen.strategy, found.chosen.workers) == ("pipes", 16)


def test_a_smaller_size_that_is_faster_at_all_represents_its_strategy() -> None:
    found = answered(PYTHON, {("pipes", 16): 40.0, ("pipes", 8): 42.0}, factors=WILD)
    assert (found.chosen.strategy, found.chosen.workers) == ("pipes", 8)


def test_a_size_that_is_clearly_faster_than_the_predicted_one_is_chosen() -> None:
    sizes = (("prefork", 2), ("prefork", 4), ("pipes", 2))
    found = answer_of(38.0, 43.0, 40.0, sizes=sizes)
    assert (found.chosen.strategy, found.chosen.workers) == ("prefork", 4)


def test_a_candidate_that_was_left_out_is_not_chosen() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    fast_then_slow = [80.0] * 3 + [40.0] * 4  # the machine became slower
    found = answer.evaluate(QUESTION, plan, measured(plan, {0: [60.0] * 3, 1: fast_then_slow}))
    assert found.others[0].rate.value > (found.chosen.rate.value or 0.0)
    assert found.chosen.strategy == "pipes"


def test_a_difference_that_is_not_certain_is_not_ignored() -> None:
    found = answered(PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 34.0}, factors=WILD)
    assert (found.chosen.strategy, found.tie) == ("prefork", ("prefork",))
    assert found.sure == certainty.LIKELY
    assert "Certainty: Likely. pipes x2 may be faster" in words(found)


def test_a_noisy_measurement_counts_less_than_the_prediction() -> None:
    sizes = {("loop", 1): 42.0, ("prefork", 2): 40.0}  # predicted: half, and one
    noisy = answered(PYTHON, sizes, factors=WILD)
    assert (noisy.chosen.strategy, noisy.tie) == ("prefork", ("prefork",))
    reason = (
        "loop was 5 % faster, but this is not certain, and its predicted rate is 47 % lower than "
        "that of prefork x2."
    )
    assert reason in words(noisy)
    steady = answered(PYTHON, sizes)
    assert (steady.chosen.strategy, steady.tie) == ("loop", ("loop",))
    assert "not certain" not in words(steady)


def test_a_disturbed_measurement_has_no_verdict() -> None:
    found = answer_of(40.0, 20.0, others_cpu=0.5)
    assert found.disturbed is not None
    assert found.sure == certainty.DISTURBED
    text = words(found)
    assert text.startswith("No advice for quote: other processes used 50 % of the machine's CPU.")
    assert "Certainty: Unknown, because the measurement was disturbed." in text
    assert "Why:" not in text and "Serve it" not in text
    assert "Prediction: processes x2 with " in text
    assert "/s, calculated from calls of the function alone, which may have been disturbed" in text


def test_a_disturbed_measurement_of_a_single_candidate_has_no_verdict_either() -> None:
    found = answer_of(40.0, others_cpu=0.5)
    assert (found.others, found.sure) == ((), certainty.DISTURBED)
    assert words(found).startswith("No advice for quote: other processes used 50 % of the machine")


def test_without_any_figure_the_prediction_answers() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    found = answer.evaluate(QUESTION, plan, [])
    assert (found.is_measured, found.chosen.strategy) == (False, "processes")
    assert (found.chosen.rate.value, found.sure) == (None, certainty.PREDICTED)
    assert "Predicted rate" in words(found)
    assert "for quote, by prediction." in words(found)
    assert "Measure it: offload advise quote" in words(found)
    assert "The predicted rates of " in words(found)
    assert "differ by at most 3 %; processes is the simplest." in words(found)


def test_a_candidate_that_did_not_start_is_left_out_and_reported() -> None:
    rates = {("prefork", 2): 0.0, ("pipes", 2): 40.0}
    found = answered(PYTHON, rates, problem="it died: check its log")
    assert (found.chosen.strategy, found.others) == ("pipes", ())
    values = json.loads(answer_json.as_json(found))
    assert values["flags"] == ["it died: check its log"]
    first = {"strategy": "prefork", "workers": 2, "why": "failed", "problem": values["flags"][0]}
    assert first.items() <= values["not_measured"][0].items()
    assert "Not measured: prefork x2 (failed: it died" in words(found)


def test_a_candidate_that_failed_in_its_last_rounds_is_not_chosen() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    windows = measured(plan, {0: times(90.0)[:1], 1: times(40.0)})
    died = [
        changed(record, round=number, completed=None, rate=None, problem="it died")
        for number, record in enumerate(windows[:1] * 2, start=2)
    ]
    found = answer.evaluate(QUESTION, plan, [*windows, *died])
    assert (found.chosen.strategy, found.others) == ("pipes", ())
    assert "Not measured: prefork x2 (failed: it died" in words(found)


def test_requests_that_failed_under_load_are_a_warning() -> None:
    found = answer_of(40.0, 20.0, failed={"5xx": 5, "unfinished": 5})  # and 10 completed
    warning = "33.3 % of the requests to prefork x2 failed under load"
    assert f"Warning: {warning}" in words(found)
    assert answer_json.as_dict(found)["flags"][0].startswith(warning)


def test_an_interrupted_measurement_of_response_times_has_the_loads_so_far() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    windows = measured(plan, {0: times(20.0), 1: times(40.0)})
    half, most = loads(plan, 1, (0.5, 0.7), (0.6, 0.8))
    found = answer.evaluate(QUESTION, plan, [*windows, half])
    assert "Response time: p95 is 500 ms (482 to 522 ms) at 50 % load (20/s)." in words(found)
    assert found.chosen.memories_mib == (80.0,)
    again = changed(half, memory_pss_mib=81.0)
    found = answer.evaluate(QUESTION, plan, [*windows, half, most, again])
    assert (found.chosen.memories_mib, found.chosen.memory_mib) == ((80.0, 84.0, 81.0), 84.0)


def test_more_memory_than_the_limit_is_a_warning() -> None:
    rates = {("threads", 25): 124.0, ("threads", 16): 79.0}
    assert answered(SLEEP, rates, memory_mib=84.0).chosen.memories_mib == (80.0, 84.0)
    assert "Warning:" not in words(answered(SLEEP, rates, memory_mib=84.0))
    warning = "Warning: threads x25 used 84 MiB, more than the limit of 82 MiB."
    assert warning in words(answered(SLEEP, rates, memory_mib=82.0))


def test_a_load_that_failed_is_a_warning_even_if_its_server_has_a_rate() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    windows = measured(plan, {0: times(40.0), 1: times(20.0)})
    windows[1] = changed(windows[1], problem="it was killed")
    found = answer.evaluate(QUESTION, plan, windows)
    assert (found.chosen.strategy, found.failures) == ("prefork", ())
    assert "Warning: Some loads failed: it was killed." in words(found)


def test_a_shortened_message_is_marked() -> None:
    assert names.shorten("it died.") == "it died"
    assert names.shorten("word " * 100).endswith(" word ...")
    assert len(names.shorten("word " * 100)) <= names.LONGEST


def test_if_no_candidate_started_the_prediction_reports_why() -> None:
    found = answered(PYTHON, {("prefork", 2): 0.0, ("pipes", 2): 0.0}, problem="it died")
    assert (found.is_measured, len(found.failures)) == (False, 2)
    text = words(found)
    assert "Not measured: prefork x2 (failed: it died) and pipes x2 (failed: it died)." in text
    assert "Find out why the servers failed, and repeat: offload advise quote" in text


def test_response_times_below_capacity_are_part_of_the_answer() -> None:
    rates = {("prefork", 2): 20.0, ("pipes", 2): 40.0}
    found = answered(PYTHON, rates, p95_s=(0.5, 0.7))
    first, _ = found.chosen.percentiles
    assert first.value == 0.5
    assert first.low is not None and first.high is not None and first.low < 0.5 < first.high < 1.0
    assert (found.chosen.memory_mib, found.chosen.memories_mib) == (84.0, (80.0, 84.0))
    text = words(found)
    assert "Response time: p95 is 500 ms (482 to 522 ms) at 50 % load (20/s) and 700 ms" in text
    assert "80 to 84 MiB" in text


def test_a_percentile_that_is_a_lower_bound_is_marked_and_keeps_no_limit() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    records = measured(plan, {0: times(20.0), 1: times(40.0)})
    for record in loads(plan, 1, (2.0, 2.0), (2.0, 2.0)):
        records.append(changed(record, at_least_s=2.0, histogram=histogram([2.0] * 99)))
    found = answer.evaluate(replace(QUESTION, p99_s=3.0), plan, records)
    text = words(found)
    assert "p95 is >= 2 s at 50 % load (20/s) and >= 2 s at 80 % load (32/s)." in text
    assert "p99: >= 2 s at 50 % load and >= 2 s at 80 % load: the limit of 3 s is not met." in text
    [first, _] = json.loads(answer_json.as_json(found))["p95_s"]
    assert first["at_least_s"] == 2.0 <= first["low"]
    assert latency.Percentile(1.0, None, None, 2.0).is_bound(2.0) is False


def test_a_required_p99_is_met_up_to_a_load() -> None:
    found = answered(PYTHON, {("prefork", 2): 40.0, ("pipes", 2): 20.0}, p99_s=0.1)
    limit = "the limit of 100 ms is met up to 50 % load (20/s)."
    assert f"p99: 79.6 ms at 50 % load and 114 ms at 80 % load: {limit}" in words(found)


def test_a_candidate_that_meets_the_required_p99_is_chosen_instead_of_a_faster_one() -> None:
    question = replace(QUESTION, p99_s=0.1)
    plan = planned(("prefork", 2), ("pipes", 2), ("threads", 2))
    records = measured(plan, {0: times(40.0), 1: times(30.0), 2: times(20.0)})
    records += loads(plan, 0, (0.5, 0.7), (0.6, 0.8))
    missed = answer.evaluate(question, plan, records)
    missed_p99 = missed.chosen.missed_p99
    assert missed.chosen.strategy == "prefork"
    assert missed_p99 is not None and missed_p99.p99_s == 0.6
    assert "the limit of 100 ms is not met." in words(missed)
    found = answer.evaluate(question, plan, [*records, *loads(plan, 1, (0.04, 0.08), (0.05, 0.1))])
    assert (found.chosen.strategy, found.tie, found.sure) == ("pipes", ("pipes",), certainty.SURE)
    assert "prefork x2 misses the required p99: it is 600 ms at 50 % load." in words(found)
    assert "Certainty: Sure. No other row that may meet the required p99 is faster." in words(found)
    assert "is met up to" in words(found) and "may be faster" not in words(found)
    dead = [changed(each, problem="it died") for each in loads(plan, 1, (0.04, 0.08), (0.05, 0.1))]
    assert answer.evaluate(question, plan, [*records, *dead]).chosen.strategy == "prefork"
    without = answer.evaluate(
        QUESTION, plan, [*records, *loads(plan, 1, (0.04, 0.08), (0.05, 0.1))]
    )
    assert without.chosen.strategy == "prefork"


@pytest.mark.parametrize(
    "values", [{"problem": "it died"}, {"response_p95_s": None, "response_p99_s": None}]
)
def test_a_candidate_without_response_times_misses_the_required_p99(
    values: dict[str, object],
) -> None:
    question = replace(QUESTION, p99_s=0.1)
    plan = planned(("prefork", 2), ("pipes", 2))
    records = measured(plan, {0: times(40.0), 1: times(30.0)})
    records += [changed(each, **values) for each in loads(plan, 0, (0.04, 0.04), (0.05, 0.05))]
    found = answer.evaluate(question, plan, records)
    assert "is not met" in words(found)
    following = steps._next_for_latency(found, [plan.cases[0]], math.inf)
    assert following is not None and following.strategy == "pipes"
    records += loads(plan, 1, (0.04, 0.08), (0.05, 0.09))
    found = answer.evaluate(question, plan, records)
    assert (found.chosen.strategy, found.sure) == ("pipes", certainty.SURE)
    assert "prefork x2 misses the required p99: requests fail or time out" in words(found)
    assert "Certainty: Sure. No other row that may meet the required p99" in words(found)


def test_loads_without_a_response_have_failed_completely() -> None:
    plan = planned(("prefork", 2))
    records = [
        changed(each, response_p95_s=None, completed=0, failed={"timeout": 9})
        for each in loads(plan, 0, (0.04, 0.04), (0.05, 0.05))
    ]
    assert [each.failed for each in latency.percentiles(records)] == [1.0, 1.0]


def test_a_larger_size_that_may_be_faster_is_not_said_to_gain_nothing() -> None:
    sizes = {("prefork", 2): 40.0, ("prefork", 4): 38.0}
    clear, noisy = answered(PYTHON, sizes), answered(PYTHON, sizes, factors=WILD)
    assert "A larger size than 2 processes gained nothing" in words(clear)
    assert noisy.chosen.workers == 2 and "prefork x4 may be faster" in words(noisy)
    assert "A larger size than 2 processes may be faster" in words(noisy)


def test_the_next_command_asks_the_same_question() -> None:
    case = replace(CASE, python="3.14t")
    found = answer.predict(replace(QUESTION, p99_s=0.0525, memory_mib=512.0, cpus=1), case)
    [following] = next_steps.sentences(found)
    options = following.partition("advise quote ")[2]
    assert options == "python=3.14t cpus=1 memory=512M p99=52.5ms"
    values = dict(option.split("=") for option in options.split())
    assert arguments.mebibytes("memory", values["memory"]) == 512.0
    assert arguments.response_time("p99", values["p99"]) == pytest.approx(0.0525)


def test_response_times_of_other_strategies_are_measured_while_the_required_p99_is_missed() -> None:
    question = replace(QUESTION, p99_s=0.1)
    plan = planned(("prefork", 2), ("prefork", 4), ("pipes", 2), ("threads", 2))
    records = measured(plan, {0: times(40.0), 1: times(39.0), 2: times(30.0), 3: times(20.0)})
    measured_cases: list[Case] = []
    for place, p99_s in ((0, 0.6), (2, 0.2), (3, 0.3)):
        found = answer.evaluate(question, plan, records)
        following = steps._next_for_latency(found, measured_cases, 0.0)
        assert following is not None and following.case == plan.cases[place]
        measured_cases.append(following.case)
        records += loads(plan, place, (p99_s, p99_s), (p99_s, p99_s))
    found = answer.evaluate(question, plan, records)
    assert steps._next_for_latency(found, measured_cases, 0.0) is None
    assert found.chosen.strategy == "prefork"  # none of them meets it


def test_the_next_best_strategy_has_response_times_if_there_is_time() -> None:
    plan = planned(("prefork", 2), ("prefork", 4), ("pipes", 2), ("threads", 2))
    records = measured(plan, {0: times(40.0), 1: times(39.0), 2: times(30.0), 3: times(20.0)})
    records += loads(plan, 0, (0.5, 0.7), (0.6, 0.8))
    found = answer.evaluate(QUESTION, plan, records)
    soon = time.monotonic() + steps.SHORTEST_LATENCY_S - 1
    assert steps._next_for_latency(found, [plan.cases[0]], soon) is None
    following = steps._next_for_latency(found, [plan.cases[0]], math.inf)
    assert following is not None and following.case == plan.cases[2]
    records += loads(plan, 2, (0.2, 0.3), (0.6, 0.8))
    found = answer.evaluate(QUESTION, plan, records)
    assert steps._next_for_latency(found, [plan.cases[0], plan.cases[2]], math.inf) is None
    assert re.search(r"p95 of pipes x2 is 200 ms \([^)]*\) at 50 % load \(15/s\)", words(found))
    values = answer_json.as_dict(found)
    assert [each["value"] for each in values["p95_s"]] == [0.5, 0.7]
    known = {each["server"]: each for each in values["alternatives"]}
    assert [each["value"] for each in known["pipes"]["p95_s"]] == [0.2, 0.3]
    assert (known["pipes"]["memory_low_mib"], known["pipes"]["memory_mib"]) == (80.0, 84.0)
    assert (known["threads"]["p95_s"], known["threads"]["memory_mib"]) == ([], None)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"histogram": {"-115": 99}}, "of fewer than 100 responses: it is not known whether the l"),
        ({"histogram": {"-115": 100}}, "the limit of 200 ms is met up to 80 % load (32/s)."),
        ({"completed": 980, "failed": {"5xx": 20}}, "the limit of 200 ms is not met."),
        ({"completed": 999, "failed": {"5xx": 1}}, "the limit of 200 ms is met up to 80 % load"),
    ],
)
def test_a_p99_needs_enough_responses_and_few_failures(
    values: dict[str, object], expected: str
) -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    records = measured(plan, {0: times(20.0), 1: times(40.0)})
    records += [changed(each, **values) for each in loads(plan, 1, (0.1, 0.1), (0.1, 0.1))]
    assert expected in words(answer.evaluate(replace(QUESTION, p99_s=0.2), plan, records))


def test_a_p99_that_is_missed_at_half_load_is_not_met_at_a_higher_load() -> None:
    """Noise can make the response times of the lower load longer."""
    slow, fast = (latency.Percentile(t, t, t, t, responses=200) for t in (0.3, 0.1))
    [sentence] = response_times.required_p99(0.2, 40.0, [slow, fast])
    assert sentence.endswith("the limit of 200 ms is not met. Reduce the load per machine.")


def test_a_percentile_of_few_responses_has_no_upper_limit() -> None:
    few = changed(new_record(CASE, "run"), response_p95_s=0.5, histogram={"-70": 9, "-60": 1})
    [found] = latency.percentiles([few])
    assert (found.value, found.high) == (0.5, None)
    assert latency.percentiles([new_record(CASE, "run")]) == [latency.Percentile(None, None, None)]


def test_one_slow_load_of_several_does_not_change_the_95th_percentile() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    values = ((0.1, 0.2), (0.11, 0.9), (0.12, 0.22))
    passes = [record for p95_s in values for record in loads(plan, 1, p95_s, p95_s)]
    low, high = latency.percentiles(passes)
    assert (low.value, low.low, low.high) == (0.11, 0.1, 0.12)
    assert (high.value, high.low, high.high) == (0.22, 0.2, 0.9)
    assert high.p99_s is not None and 0.8 < high.p99_s < 1.0  # of all responses
    [only] = latency.percentiles(passes[:1])
    assert (only.value, only.p99_s) == (0.1, 0.1)


def test_a_load_that_failed_does_not_narrow_the_interval_of_the_others() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    whole, other = loads(plan, 1, (0.1, 0.2), (0.1, 0.2))
    died = changed(whole, response_p95_s=0.001, problem="the server ended with exit code 1")
    late = changed(whole, response_p95_s=None, histogram=None)  # it had no response
    for failed in (died, late):
        [low, high] = latency.percentiles([whole, other, failed])
        assert (low.value, high.value) == (0.1, 0.2)
        assert low.low is not None and low.high is not None and low.low < 0.1 < low.high
    assert latency.percentiles([died]) == [latency.Percentile(None, None, None)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_text_has_at_most_30_lines_of_100_columns(name: str) -> None:
    found = SCENARIOS[name]()
    lines = answer_text.text(found, Path("results/20260101-000000-advise")).splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("Use " if found.disturbed is None else "No advice")
    assert lines[-1] == "Records: results/20260101-000000-advise"


@pytest.mark.parametrize(
    "name",
    [name for name in SCENARIOS if name not in ("disturbed", "everything at once")],  # it is cut
)
def test_no_strategy_is_missing_without_a_reason(name: str) -> None:
    found = SCENARIOS[name]()
    rows = {option.strategy for option in (found.chosen, *found.others)}
    reasoned = {each["strategy"] for each in answer_json.as_dict(found)["not_measured"]}
    assert rows | reasoned == {*STRATEGIES}
    sentence = words(found).partition("Not measured: ")[2].partition(". ")[0]
    assert all(strategy in sentence for strategy in reasoned)


def test_a_strategy_that_was_not_measured_has_its_prediction_and_the_reason() -> None:
    text = words(answer_of(40.0, 20.0))
    assert (
        "Not measured: processes x2 (predicted 37.04/s), loop (predicted 19.80/s, one call at a "
        "time) and threads x2 (predicted 19.71/s, the threads share one GIL). Only the best "
        "predictions are measured."
    ) in text
    text = words(SCENARIOS["a limit of memory on processes"]())
    assert "processes (needs more than 39 MiB)" in text
    assert "pipes x1 (predicted 4.97/s, a larger size needs more than 70 MiB)" in words(
        SCENARIOS["a limit of memory"]()
    )
    assert "The measurement was interrupted." in words(SCENARIOS["interrupted"]())
    warning = "The overhead is not certain: it was busy; repeat the measurement at a quieter time."
    assert warning in words(SCENARIOS["predicted on a busy machine"]())


def test_what_is_special_about_the_function_is_a_warning() -> None:
    found = SCENARIOS["unsafe in threads, fails, leaks and more"]()
    warning = words(found).partition("Warning: ")[2].partition(" Certainty: ")[0]
    for part in (
        "not thread-safe",
        "2.0 % of the calls failed: ValueError: x",
        "may leak",
        "1.95 s",
    ):
        assert part in warning
    assert "threads (not thread-safe)" in words(found)


def test_a_coroutine_that_blocks_its_loop_by_waiting_is_reported() -> None:
    found = SCENARIOS["a coroutine that blocks"]()
    assert "The coroutine blocks its event loop for 20.5 ms" in words(found)
    assert any("coroutine that awaits" in sentence for sentence in changes.sentences(found))
    awaits = SCENARIOS["loop is best for a coroutine"]()
    assert [*warnings.sentences(awaits), *changes.sentences(awaits)] == []


def test_a_loop_that_is_busy_is_not_blocked_if_the_coroutine_awaits() -> None:
    """25 requests occupy the loop for 100 ms, while each of them awaits 50 ms."""
    busy = answered(coroutine(0.05, 0.004, 25), {("loop", 1): 160.0, ("prefork", 2): 150.0})
    assert busy.chosen.prediction.limit == limits.TASK
    assert "the limit is the event loop: it is busy with the requests of all users" in words(busy)
    slow = answered(coroutine(0.05, 0.004, 25), {("prefork", 4): 320.0, ("loop", 1): 160.0})
    assert "loop is slower: the event loop is busy." in words(slow)
    blocks = answered(coroutine(0.0, 0.004, 25), {("loop", 1): 220.0, ("prefork", 2): 210.0})
    assert "calls run one at a time on the event loop" in words(blocks)


def test_settings_of_malloc_are_named_if_they_save_cpu() -> None:
    found = answer_of(40.0, 39.0, 20.0)
    question = found.question
    assert not any("MALLOC" in sentence for sentence in changes.sentences(found))
    [other, *_] = question.probe.of_kind(PROCESSES)
    kept = replace(other, kind=KEPT_PAGES, cpu_s=0.6 * other.cpu_s)
    probe = replace(question.probe, points=(*question.probe.points, kept))
    found = replace(found, question=replace(question, probe=probe))
    [sentence] = [each for each in changes.sentences(found) if "MALLOC" in each]
    assert "MALLOC_MMAP_THRESHOLD_=16777216" in sentence
    assert "a call needs 40 % less CPU" in sentence


def test_the_size_beyond_which_nothing_is_gained_has_its_reason() -> None:
    sentences = {name: " ".join(reasons.sentences(build())) for name, build in SCENARIOS.items()}
    for name, sentence in (
        ("processes are best for Python", "A larger size than 2 processes gained nothing"),
        ("threads are best for waiting", "A larger size than 25 threads gains nothing"),
        ("a tie", "By the prediction, a larger size than 2 processes gains nothing."),
        ("predicted", "A larger size than 25 processes gains nothing with 25 users."),
    ):
        assert sentence in sentences[name]
    memory = replace(QUESTION, probe=SLEEP, memory_mib=60.0)
    plan = planned(("prefork", 4), question=memory)
    found = answer.evaluate(memory, plan, measured(plan, {0: times(19.0)}))
    assert "A larger size needs more than 60 MiB." in [*reasons.sentences(found)]


def test_a_prediction_that_is_far_off_is_no_reason_to_trust_others() -> None:
    found = words(SCENARIOS["waits and computes"]())
    assert "% above the measured rate: do not rely on predictions here." in found
    rate = model(SLEEP).predict("threads", 25).rate
    found = words(answered(SLEEP, {("threads", 25): rate, ("pipes", 25): 0.9 * rate}))
    assert f"Prediction: {rate:.1f}/s for threads x25, as measured." in found


def test_the_reasons_name_what_limits_the_rivals() -> None:
    found = answer_of(40.0, 39.0, 20.0)
    text = " ".join(reasons.sentences(found))
    assert "it holds the GIL for 100 % of the call" in text
    assert "threads x2 is slower: the threads share one GIL." in text
    assert any("free-threaded" in line for line in changes.sentences(found))


def test_json_has_the_documented_keys() -> None:
    found = json.loads(answer_json.as_json(answer_of(40.0, 30.0, 20.0)))
    keys = "strategy workers rate rate_low rate_high p95_s memory_mib tie alternatives "
    keys += "not_measured predicted_rate sure why flags handler memory_low_mib pythons"
    assert found.keys() >= {*keys.split()}
    assert found["rate_low"] < found["rate"] < found["rate_high"]
    assert (found["handler"], found["alternatives"][0]["verdict"]) == (None, "slower")


def test_other_servers_with_the_same_strategy_are_alternatives() -> None:
    found = answer_of(20.0, 30.0, 40.0, sizes=(("loop", 1), ("pipes", 2), ("threads", 8)))
    others = [each for each in answer_json.as_dict(found)["alternatives"] if each["rate"] is None]
    assert {"waitress", "gunicorn_gthread"} <= {each["server"] for each in others}
    assert {(each["strategy"], each["workers"]) for each in others} == {("threads", 8)}
    assert "waitress" in words(found).partition("Other servers with the same strategy: ")[2]
    assert "Other servers" not in words(answer_of(30.0, 40.0))  # pipes: it has none


@pytest.mark.parametrize("strategy", ["loop", "threads", "processes", "prefork"])
def test_the_documentation_lists_the_other_servers_of_each_strategy(strategy: str) -> None:
    own = [entry for entry in catalog.servers().values() if entry.strategy == strategy]
    assert len(own) >= 3
    for entry in own:
        assert entry.name not in STRATEGIES
        assert entry.size is not None or strategy == "loop"
    text = (ROOT / "docs/advice.rst").read_text().partition("Other servers\n---")[2]
    row = text.partition(f"\n``{strategy}``  ")[2].partition("\n``")[0].partition("\n===")[0]
    assert re.findall(r"``(\w+)``", row) == sorted(entry.name for entry in own)


def test_a_predicted_answer_lists_the_servers_of_its_strategy() -> None:
    found = answer.predict(QUESTION, CASE)
    others = [each for each in answer_json.as_dict(found)["alternatives"] if each["rate"] is None]
    servers = {each["server"] for each in others} - {*STRATEGIES}
    chosen = found.chosen
    assert servers == {
        entry.name for entry in catalog.servers().values() if entry.strategy == chosen.strategy
    }


def test_predictions_for_other_pythons_are_changes() -> None:
    best = Prediction("threads", 4, 80.0, None, "cpu")
    pythons = (
        OtherPython("3.14t", best, 1.6),
        OtherPython("3.12", problem="lxml is missing: install it"),
    )
    question = replace(QUESTION, pythons=pythons)
    plan = planned(("prefork", 2), ("pipes", 2))
    windows = measured(plan, {0: times(40.0), 1: times(20.0)})
    found = answer.evaluate(question, plan, windows)
    assert "In Python 3.14t: threads x4 with 80.00/s by the prediction, 1.60x of" in words(found)
    assert "In Python 3.12: lxml is missing: install it." in words(found)
    first, second = answer_json.as_dict(found)["pythons"]
    assert (first["python"], first["strategy"], first["workers"]) == ("3.14t", "threads", 4)
    assert (first["predicted_rate"], first["ratio"]) == (80.0, 1.6)
    assert (second["predicted_rate"], second["problem"]) == (None, "lxml is missing: install it")


def test_a_call_that_opens_connections_may_keep_them_open() -> None:
    call = replace(PYTHON.call, connections=1)
    found = answered(replace(PYTHON, call=call), {("prefork", 2): 40.0, ("pipes", 2): 20.0})
    assert "Each call opens a network connection" in words(found)
    kept = replace(PYTHON, call=replace(call, connections=0))
    assert "network connection" not in words(answered(kept, {("prefork", 2): 40.0}))


def test_a_saved_question_is_read_again(tmp_path: Path) -> None:
    pythons = (
        OtherPython("3.14t", QUESTION.model.ranking()[0], 1.6),
        OtherPython("3.9", problem="it is too old"),
    )
    others = (
        replace(QUESTION, overhead_warning="it was busy"),
        replace(QUESTION, pythons=pythons),
    )
    for question in (QUESTION, *others):
        question_file.save(question, tmp_path)
        assert question_file.load(tmp_path) == question


def test_the_time_on_the_loop_of_an_earlier_version_follows_from_the_rate(tmp_path: Path) -> None:
    awaits = coroutine(0.05, 0.004, 25)
    earlier = tuple(replace(each, on_loop_s=None) for each in awaits.points)
    question_file.save(replace(QUESTION, probe=replace(awaits, points=earlier)), tmp_path)
    probe = question_file.load(tmp_path).probe
    assert probe.on_loop_s == pytest.approx(0.004)
    assert not probe.blocks_loop


def test_a_question_that_cannot_be_saved_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="check permissions and disk space"):
        question_file.save(QUESTION, tmp_path / "missing")


@pytest.mark.parametrize("content", ["", "{}", '{"probe": 1, "overheads": {}, "users": 1}', "[]"])
def test_a_damaged_question_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / question_file.FILE).write_text(content)
    with pytest.raises(StorageError, match="repeat"):
        question_file.load(tmp_path)
    with pytest.raises(StorageError, match="No such file"):
        question_file.load(tmp_path / "missing")


def test_a_call_that_only_waits_for_a_cpu_is_described_by_its_duration() -> None:
    """On a busy machine, a short call may wait for a CPU for nearly all of its time."""
    known = replace(PYTHON, call=replace(PYTHON.call, cpu_s=0.0001, queued_s=0.0499))
    text = " ".join(answer_text.text(answered(known, {("prefork", 2): 39.0})).split())
    assert "A call alone takes 50 ms; it holds the GIL" in text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("users",), 0),
        (("users",), math.inf),
        (("memory_mib",), "many"),
        (("memory_mib",), -1),
        (("p99_s",), 0),
        (("p99_s",), math.nan),
        (("probe", "cores"), 0),
        (("probe", "call", "wall_s"), 0),
        (("users",), -3),
        (("busy_cpu_s",), [-1]),
    ],
)
def test_a_question_with_an_impossible_value_is_one_line(
    tmp_path: Path, path: tuple[str | int, ...], value: object
) -> None:
    question_file.save(QUESTION, tmp_path)
    file = tmp_path / question_file.FILE
    values = json.loads(file.read_bytes())
    part = values
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    file.write_text(json.dumps(values))
    with pytest.raises(StorageError, match="is not readable by this version"):
        question_file.load(tmp_path)


def test_a_question_that_is_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    (tmp_path / question_file.FILE).write_text("[" * 100_000)
    with pytest.raises(StorageError, match="is nested too deeply"):
        question_file.load(tmp_path)


def test_a_rival_that_was_left_out_of_later_rounds_is_unlikely_to_be_faster() -> None:
    """Two rounds have a wide interval, although the selection has decided against it."""
    plan = planned(("prefork", 2), ("pipes", 2))
    rates = {0: times(40.0), 1: [20.0, 38.0]}
    found = words(answer.evaluate(QUESTION, plan, measured(plan, rates)))
    left_out = "Later rounds left out pipes x2, because it is unlikely to be the fastest."
    assert f"Likely. {left_out}" in found
    equal = {0: times(40.0, WILD), 1: times(38.0, WILD)}
    assert "left out" not in words(answer.evaluate(QUESTION, plan, measured(plan, equal)))
