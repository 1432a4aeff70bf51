"""The answer is chosen by the measured rates, and says how sure it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offload.bench.advice import answer, candidates, certainty, latency
from offload.bench.advice.answer import Answer, Question
from offload.bench.planning.plan import Plan
from offload.bench.records.record import LONG, WINDOW, Record
from offload.errors import StorageError
from offload.loads.engine.figures.histogram import histogram
from offload.reports.advice import answer_json, answer_text, reasons
from offload.suites import Case
from tests.advice.probes import OVERHEADS, point, probe
from tests.records import changed, new_record

PYTHON = probe(wait_s=0.0, cpu_s=0.05, hold=1.0)
QUESTION = Question(PYTHON, OVERHEADS, 25)
CASE = Case("threads", "xml_feedparser_sync")
STEADY = (1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.0)


def planned(*strategies: tuple[str, int], question: Question = QUESTION) -> Plan:
    model = question.model
    return candidates.plan(model, CASE, [model.predict(*each) for each in strategies], 80.0)


def measured(plan: Plan, rates: Mapping[int, Sequence[float]], **values: object) -> list[Record]:
    """Return one window of each round and case."""
    return [
        changed(
            new_record(plan.cases[place], "run"),
            **{"kind": WINDOW, "block": 0, "round": number, "place": place, "quick": True},
            **{"rate": rate, "completed": 10, "suite": "advise", **values},
        )
        for place, own in rates.items()
        for number, rate in enumerate(own, start=1)
    ]


def times(rate: float, factors: Sequence[float] = STEADY) -> list[float]:
    return [rate * factor for factor in factors]


def asked(*rates: float, strategies: Sequence[tuple[str, int]] = (), **values: object) -> Answer:
    """Return the answer to candidates with these rates."""
    names = strategies or (("prefork", 2), ("pipes", 2), ("threads", 2))[: len(rates)]
    plan = planned(*names)
    found = {place: times(rate) for place, rate in enumerate(rates)}
    return answer.evaluate(QUESTION, plan, measured(plan, found, **values))


def test_the_fastest_candidate_is_chosen_beyond_doubt() -> None:
    found = asked(30.0, 40.0, 20.0)
    assert (found.chosen.strategy, found.chosen.workers, found.tie) == ("pipes", 2, ("pipes",))
    assert [each.strategy for each in found.others] == ["prefork", "threads"]
    ratio = found.others[1].compared
    assert ratio is not None and ratio.verdict.ratio == pytest.approx(0.5)
    assert found.sure == certainty.SURE


def test_of_equal_candidates_the_simplest_is_chosen() -> None:
    found = asked(40.0, 39.8, 20.0)
    assert (found.chosen.strategy, set(found.tie)) == ("pipes", {"prefork", "pipes"})
    assert found.sure == certainty.TIE
    assert "shows no difference between prefork and pipes; pipes is the simplest." in " ".join(
        answer_text.text(found).split()
    )
    sizes = asked(40.0, 39.9, strategies=(("pipes", 4), ("pipes", 2)))
    assert (sizes.chosen.workers, sizes.tie) == (2, ("pipes",))
    assert sizes.sure == certainty.SURE


def test_a_difference_that_is_not_certain_is_not_ignored() -> None:
    wild = [0.7, 1.3, 1.0]
    plan = planned(("prefork", 2), ("pipes", 2))
    rates = {0: times(40.0, wild), 1: times(34.0, wild[::-1])}
    found = answer.evaluate(QUESTION, plan, measured(plan, rates))
    assert (found.chosen.strategy, found.tie) == ("prefork", ("prefork",))
    assert found.sure == certainty.LIKELY
    assert "Certainty: likely. pipes x2 may be as fast" in answer_text.text(found)


def test_a_disturbed_measurement_has_no_verdict() -> None:
    found = asked(40.0, 20.0, others_cpu=0.5)
    assert found.disturbed is not None
    assert found.sure == certainty.DISTURBED
    text = " ".join(answer_text.text(found).split())
    assert "Certainty: unknown. The measurement was disturbed: other processes used 50 % " in text


def test_without_any_figure_the_prediction_answers() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    found = answer.evaluate(QUESTION, plan, [])
    assert (found.is_measured, found.chosen.strategy) == (False, "processes")
    assert (found.chosen.rate.value, found.sure) == (None, certainty.PREDICTED)
    assert "Predicted rate" in answer_text.text(found)
    assert "fab advise:quote measures it" in answer_text.text(found)


def test_a_candidate_that_did_not_start_is_left_out_and_reported() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    records = measured(plan, {1: times(40.0)})
    failed = changed(new_record(plan.cases[0], "run"), kind=WINDOW, place=0, problem="it died")
    found = answer.evaluate(QUESTION, plan, [failed, *records])
    assert (found.chosen.strategy, found.others) == ("pipes", ())
    assert json.loads(answer_json.as_json(found))["flags"] == ["it died"]


def test_response_times_below_capacity_are_part_of_the_answer() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    records = measured(plan, {0: times(20.0), 1: times(40.0)})
    histogram = {str(bucket): 10 for bucket in range(-100, 0)}
    for share in latency.LOADS:
        record = changed(
            new_record(plan.cases[1], "run"),
            **{"kind": LONG, "place": 1, "asked_rate": 40 * share, "memory_pss_mib": 80.0},
            **{"response_p95_s": 0.5, "histogram": histogram},
        )
        records.append(record)
    found = answer.evaluate(QUESTION, plan, records)
    first, _ = found.percentiles
    assert first.value == 0.5
    assert first.low is not None and first.high is not None and first.low < first.high < 1.0
    assert found.memory_mib == 80.0
    assert "500 ms, 500 ms 80 MiB" in " ".join(answer_text.text(found).split())


def test_a_percentile_that_is_a_lower_bound_is_marked_and_keeps_no_limit() -> None:
    plan = planned(("prefork", 2), ("pipes", 2))
    records = measured(plan, {0: times(20.0), 1: times(40.0)})
    for share in latency.LOADS:
        record = changed(
            new_record(plan.cases[1], "run"),
            **{"kind": LONG, "place": 1, "asked_rate": 40 * share, "at_least_s": 2.0},
            **{"response_p95_s": 2.0, "response_p99_s": 2.0, "histogram": histogram([2.0] * 99)},
        )
        records.append(record)
    found = answer.evaluate(replace(QUESTION, p99_s=3.0), plan, records)
    text = " ".join(answer_text.text(found).split())
    assert ">= 2 s, >= 2 s" in text
    assert "p99: the limit of 3 s is not met: >= 2 s at 50 % load" in text
    [first, _] = json.loads(answer_json.as_json(found))["p95_s"]
    assert first["at_least_s"] == 2.0 <= first["low"]
    assert latency.Percentile(1.0, None, None, 2.0).is_bound(2.0) is False


def test_a_percentile_of_few_responses_has_no_upper_limit() -> None:
    few = changed(new_record(CASE, "run"), response_p95_s=0.5, histogram={"-70": 9, "-60": 1})
    found = latency.percentile(few)
    assert (found.value, found.high) == (0.5, None)
    assert latency.percentile(new_record(CASE, "run")) == latency.Percentile(None, None, None)


def test_the_text_has_at_most_30_lines_of_100_columns() -> None:
    unsafe = probe(
        **{"wait_s": 0.01, "cpu_s": 0.05, "hold": 0.8, "failed": 0.02, "error": "ValueError: x"},
        **{"leak_mib": 0.5, "first_s": 2.0, "threads": 3, "variation": 2.0},
    )
    points = tuple(
        point(p.kind, p.count, p.rate, 0.05, results=3) for p in unsafe.of_kind("threads")
    )
    unsafe = type(unsafe)(**{**vars(unsafe), "points": points + tuple(unsafe.of_kind("processes"))})
    question = Question(unsafe, OVERHEADS, 25)
    names = (("prefork", 2), ("pipes", 2), ("processes", 2), ("prefork", 1), ("prefork", 4))
    plan = planned(*names, question=question)
    rates = {place: times(20.0 + place / 100) for place in range(5)}
    text = answer_text.text(answer.evaluate(question, plan, measured(plan, rates)), Path("results"))
    assert len(text.splitlines()) <= 30
    assert max(map(len, text.splitlines())) <= 100
    for part in ("not safe in threads", "2 % of the calls failed: ValueError: x", "may leak"):
        assert part in " ".join(text.split())


def test_the_reasons_name_what_limits_the_rivals() -> None:
    found = asked(40.0, 39.0, 20.0, strategies=(("prefork", 2), ("pipes", 2), ("threads", 2)))
    text = " ".join(reasons.sentences(found))
    assert "holds the GIL for 100 % of that time" in text
    assert "Threads: the threads wait for the one GIL." in text
    assert any("free-threaded" in line for line in reasons.changes(found))


def test_json_has_the_documented_keys() -> None:
    found = json.loads(answer_json.as_json(asked(40.0, 30.0, 20.0)))
    keys = "strategy workers rate rate_low rate_high p95_s memory_mib tie alternatives "
    keys += "predicted_rate sure why flags handler"
    assert found.keys() >= {*keys.split()}
    assert found["rate_low"] < found["rate"] < found["rate_high"]
    assert (found["handler"], found["alternatives"][0]["verdict"]) == (None, "slower")


def test_a_saved_question_is_read_again(tmp_path: Path) -> None:
    answer.save(QUESTION, tmp_path)
    assert answer.load(tmp_path) == QUESTION


@pytest.mark.parametrize("content", ["", "{}", '{"probe": 1, "overheads": {}, "users": 1}', "[]"])
def test_a_damaged_question_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / answer.FILE).write_text(content)
    with pytest.raises(StorageError, match="repeat"):
        answer.load(tmp_path)
    with pytest.raises(StorageError, match="No such file"):
        answer.load(tmp_path / "missing")
