"""Each format of a gate's result is valid, and reports the same verdicts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from markdown_it import MarkdownIt

from offload.engine import journal
from offload.engine.figures import Measured
from offload.studies.gate import formats
from offload.studies.gate.result import GateResult, KeptRuns, evaluate
from offload.studies.gate.rule import ConditionVerdict
from offload.suites import Request
from tests import schemas
from tests.bench.gates import PROCESSES, THREADS, plan, rates, records

ODD = replace(THREADS, request=Request("/a|b", body="`x` <&> | *y* \u2603 \x01"))
BMF = {  # as https://bencher.dev/bmf.json describes it, and no other keys
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "propertyNames": {"maxLength": 64},
        "additionalProperties": {
            "type": "object",
            "required": ["value"],
            "additionalProperties": False,
            "properties": {
                name: {"type": "number"} for name in ("value", "lower_value", "upper_value")
            },
        },
    },
}
BADGE = {  # as https://shields.io/badges/endpoint-badge describes it
    "type": "object",
    "required": ["schemaVersion", "label", "message"],
    "additionalProperties": False,
    "properties": {
        "schemaVersion": {"const": 1},
        "label": {"type": "string"},
        "message": {"type": "string", "minLength": 1},
        "color": {"enum": ["brightgreen", "red", "lightgrey"]},
        "isError": {"type": "boolean"},
    },
}


def result(
    *ratios: float,
    min_rate: float | None = None,
    max_p99_s: float | None = None,
    sd: float = 0.02,
    **values: Any,
) -> GateResult:
    cases = (ODD, PROCESSES, replace(PROCESSES, users=8))[: len(ratios)]
    made = plan(*cases, min_rate=min_rate, max_p99_s=max_p99_s)
    noise = rates(*ratios, sd=sd)
    found = records(made, lambda p, n: {**noise(p, n), **values}, 20)
    return evaluate(made, found, Path("/results/run"))


def kept(*ratios: float, moved: float | None = 0.3) -> GateResult:
    return replace(
        result(*ratios), kept=KeptRuns("baseline-main", "run", moved), left_out=("3/gone",)
    )


def without_rate(place: int, max_p99_s: float | None = None) -> GateResult:
    """Return a result with a case that has no rate on one side."""
    made = plan(THREADS, PROCESSES, max_p99_s=max_p99_s)
    steady = rates(1.0, 1.0)
    gone = {"rate": None, "problem": "not available: no such server"}
    found = records(made, lambda p, n: {**steady(p, n), **(gone if p == place else {})}, 20)
    return evaluate(made, found, Path("/results/run"))


def unknown() -> GateResult:
    """Return a result with a case without a baseline, and a condition on an unknown figure."""
    return without_rate(0, max_p99_s=1.0)


RESULTS = {
    "no loss": lambda: result(1.0, 1.0),
    "loss": lambda: result(1.0, 0.8),
    "undecided": lambda: result(1.0, 0.95),
    "disturbed": lambda: result(1.0, 1.0, others_cpu=0.5),
    "condition": lambda: result(1.0, 1.0, min_rate=150.0),
    "condition undecided": lambda: result(1.0, max_p99_s=1.0),
    "flags": lambda: result(1.0, 1.0, flags=("others: 40 % of <the> CPU: end | them",)),
    "kept": lambda: kept(1.0, 0.8),
    "kept, unknown speed": lambda: kept(1.0, 0.8, moved=None),
    "no baseline": unknown,
    "fails": lambda: without_rate(1),
}
EXPECTED = {
    "no loss": "no loss",
    "loss": "loss",
    "undecided": "undecided",
    "disturbed": "undecided",
    "condition": "loss",
    "condition undecided": "undecided",
    "flags": "no loss",
    "kept": "loss",
    "kept, unknown speed": "loss",  # the verdicts are those of records beside each other
    "no baseline": "undecided",
    "fails": "loss",
}


@pytest.fixture(scope="module", params=RESULTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def found(name: str) -> GateResult:
    made = RESULTS[name]()
    assert made.outcome == EXPECTED[name]
    return made


def test_json_is_by_its_schema(found: GateResult) -> None:
    text = formats.render(found, "json")
    schemas.validate("compare_runs", text)
    values = json.loads(text)
    assert values["verdict"] == found.outcome
    assert [case["case"] for case in values["cases"]] == [case.name for case in found.cases]
    for case in values["cases"]:
        if case["ratio"] is not None:
            assert case["ratio_low"] <= case["ratio"] <= case["ratio_high"]


def test_junit_is_read_back_with_the_same_verdicts(found: GateResult) -> None:
    junitparser = pytest.importorskip("junitparser")
    text = formats.render(found, "junit")
    [suite] = junitparser.JUnitXml.fromstring(text.encode())
    tests = [*suite]
    kinds = [[type(part).__name__ for part in test.result] for test in tests]
    words = {"no loss": [], "loss": ["Failure"], "fails": ["Failure"]}
    expected = [words.get(case.verdict.outcome, ["Error"]) for case in found.cases]
    if found.condition is not None:
        expected.append({True: [], False: ["Failure"], None: ["Error"]}[found.condition.holds])
    assert kinds == expected
    assert (suite.tests, suite.failures, suite.errors) == (
        len(tests),
        kinds.count(["Failure"]),
        kinds.count(["Error"]),
    )
    assert suite.tests > 0
    for test in tests:
        for part in test.result:
            assert part.message and part.type


def test_junit_has_the_elements_of_its_schema(found: GateResult) -> None:
    """The order and the attributes that Jenkins, GitLab and GitHub's actions read."""
    root = ET.fromstring(formats.render(found, "junit"))
    assert root.tag == "testsuites"
    [suite] = root
    required = {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}
    assert set(suite.attrib) == required
    for test in suite:
        assert (test.tag, set(test.attrib)) == ("testcase", {"classname", "name", "time"})
        assert [part.tag for part in test] in ([], ["failure"], ["error"])


def test_markdown_has_one_table_with_a_row_for_each_case(found: GateResult) -> None:
    parser = MarkdownIt("gfm-like", {"linkify": False}).disable("linkify")
    tokens = parser.parse(formats.render(found, "markdown"))
    kinds = [token.type for token in tokens]
    assert kinds.count("table_open") == 1
    assert kinds.count("tr_open") == 1 + len(found.cases)
    assert kinds.count("td_open") == 5 * len(found.cases)
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h3"]
    inline = [token for token in tokens if token.type == "inline"]
    literals = [
        part.content for t in inline for part in t.children or () if part.type == "code_inline"
    ]
    assert literals == [case.name for case in found.cases if not {*"`|"} & {*case.name}]
    firsts = [tokens[n + 1] for n, token in enumerate(tokens) if token.type == "td_open"][::5]
    shown = ["".join(part.content for part in cell.children or ()) for cell in firsts]
    assert shown == [case.name.replace("\x01", r"\u0001") for case in found.cases]
    html = [t.content for t in tokens if t.type == "html_block"]
    assert [line.strip() for line in html] == [
        "<details><summary>How it was measured</summary>",
        "</details>",
    ]
    assert not any(part.type == "html_inline" for token in inline for part in token.children or ())


def test_bencher_has_a_throughput_for_each_known_rate(found: GateResult) -> None:
    values = json.loads(formats.render(found, "bencher"))
    jsonschema.validate(values, BMF)
    known = {case.name: case.now.value for case in found.cases if case.now.value is not None}
    assert {name: measures["throughput"]["value"] for name, measures in values.items()} == known
    for measures in values.values():
        throughput = measures["throughput"]
        assert throughput["lower_value"] < throughput["value"] < throughput["upper_value"]


def test_the_badge_has_the_verdict_in_words_and_colour(found: GateResult) -> None:
    values = json.loads(formats.render(found, "badge"))
    jsonschema.validate(values, BADGE)
    colors = {"no loss": "brightgreen", "loss": "red", "undecided": "lightgrey"}
    assert values["color"] == colors[found.outcome]
    assert values["isError"] is (found.outcome == "loss")


def test_the_badge_of_failing_requests_does_not_call_them_slow() -> None:
    messages = [json.loads(formats.render(RESULTS[n](), "badge"))["message"] for n in RESULTS]
    known = dict(zip(RESULTS, messages, strict=True))
    assert known["fails"] == "1 of 2 cases failed"
    assert known["loss"] == "1 of 2 cases slower"
    assert known["condition"] == "condition does not hold"


def test_text_fits_and_begins_with_the_verdict(found: GateResult) -> None:
    text = formats.render(found, "text")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100, max(lines, key=len)
    assert lines[0].endswith(".")
    rows = [line.rsplit("  ", 1)[-1].strip() for line in lines]
    assert {case.verdict.outcome for case in found.cases} <= {*rows}


def test_every_format_is_written_for_each_gate() -> None:
    found = result(1.0, 0.8)
    formats.publish(found)
    folder = journal.RESULTS / "gate"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        file: formats.render(found, style) for style, (file, _) in formats.FORMATS.items()
    }
    formats.publish(result(1.0))
    assert json.loads((folder / "gate.json").read_text())["verdict"] == "no loss"
    for _ in range(2):
        with formats.reserved():
            assert [*folder.iterdir()] == []


def test_text_of_a_loss_at_the_limit_reports_it() -> None:
    text = formats.render(result(0.95, sd=0.005), "text")
    assert text.startswith("No verdict on ")
    assert "its loss is close to 5 %: " in text
    noisy = formats.render(result(1.0, sd=0.15), "text")
    assert "its interval includes 5 %: " in noisy


def test_infinite_ends_are_null() -> None:
    figures = {"p99(3/x)": Measured(0.05, 0.04)}
    found = replace(result(1.0), condition=ConditionVerdict("max_p99=1000ms", (None,), figures))
    values = json.loads(formats.render(found, "json"))
    assert values["ensure"]["figures"] == {"p99(3/x)": {"value": 0.05, "low": 0.04, "high": None}}
    assert formats.render(found, "text").startswith("The condition is und")


def test_an_unknown_upper_end_is_reported_in_words() -> None:
    figures = {"p99(3/x)": Measured(0.05, 0.04)}
    found = replace(result(1.0), condition=ConditionVerdict("max_p99=1000ms", (None,), figures))
    assert "p99(3/x) is 0.05 (at least 0.04)" in formats.render(found, "text")


HOSTILE = "../@octocat/a\\|b`$x$ <img src=x>&amp; \udcff\x1b[31m\x7f \u202e"
HIDDEN = [*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u061c", "\u00ad"]
HIDDEN += [*map(chr, range(0x200B, 0x2010)), "\ufeff", "\u2028", "\u2029", "\x85", "\x9b", "\u2060"]
HIDDEN += ["\u3164", "\u115f", "\ufe0f", "\ufffb", "\U000e0001", "\U000e0041", "\U000e0101"]


@pytest.mark.parametrize("style", formats.FORMATS)
def test_a_hostile_name_is_text_in_every_format(style: str) -> None:
    """A folder may have any bytes in its name, and a file of a function, too."""
    found = result(1.0, 0.8)
    cases = tuple(replace(case, name=f"3/{HOSTILE}:{case.name}") for case in found.cases)
    text = formats.render(replace(found, baseline=HOSTILE, cases=cases), style)
    assert text.encode()
    assert not {"\x1b", "\x7f", "\u202e"} & {*text}
    if style == "junit":
        suite = ET.fromstring(text)[0]
        assert [test.tag for test in suite] == ["testcase"] * 2
    elif style == "markdown":
        tokens = MarkdownIt("gfm-like", {"linkify": False}).disable("linkify").parse(text)
        assert [token.type for token in tokens].count("td_open") == 10
        parts = [part for token in tokens for part in token.children or ()]
        html = {part.content for part in parts if part.type == "html_inline"}
        assert html == {"<!-- -->"}
        assert "@octocat" not in text
    elif style in ("json", "bencher", "badge"):
        assert json.loads(text)


@pytest.mark.parametrize("style", formats.FORMATS)
def test_hidden_characters_are_visible_in_every_format(style: str) -> None:
    found = result(1.0, 0.8)
    cases = tuple(replace(case, name=f"3/{''.join(HIDDEN)}:{case.name}") for case in found.cases)
    text = formats.render(replace(found, baseline="".join(HIDDEN), cases=cases), style)
    assert not {*HIDDEN} & {*text}


def test_cases_that_differ_only_in_their_load_have_names_of_their_own() -> None:
    found = result(1.0, 1.0, 1.0)
    names = [case.name for case in found.cases]
    assert names[1:] == ["4/count_sync with 25 users", "4/count_sync with 8 users"]
    assert len(json.loads(formats.render(found, "bencher"))) == 3
    same = evaluate(made := plan(THREADS, THREADS), records(made, rates(1.0, 1.0), 5), Path("/r"))
    assert len({case.name for case in same.cases}) == 2


def test_an_interval_without_an_upper_end_is_printed() -> None:
    """Two rounds of opposite ratios: the end of the interval is beyond all numbers."""
    made = plan(THREADS)
    wild = {(0, 1): 1e6, (1, 1): 1.0, (0, 2): 1.0, (1, 2): 1e6}
    found = evaluate(
        made, records(made, lambda p, n: {"rate": wild[p, n]}, 2), Path("/results/run")
    )
    assert found.outcome == "undecided"
    assert found.cases[0].verdict.change.high == math.inf
    assert " % (at least -100.0)" in formats.render(found, "text")
    assert json.loads(formats.render(found, "json"))["cases"][0]["ratio_high"] is None


@pytest.mark.parametrize(
    ("sd", "words"),
    [(0.06, "more rounds may decide it: increase budget="), (0.3, "increase gate=")],
)
def test_an_undecided_case_has_advice_that_helps(sd: float, words: str) -> None:
    """A gate has at most 160 rounds, so that a longer one would not decide what needs more."""
    assert words in " ".join(formats.render(result(1.0, sd=sd), "text").split())


def test_failed_loads_of_each_side_are_reported() -> None:
    """The rates are those of the other loads, so each format reports how many are left out."""
    made, noise = plan(THREADS), rates(1.0)

    def values(place: int, number: int) -> dict[str, Any]:
        failed = number <= 1 + place
        return {**noise(place, number), **({"problem": "the server ended"} if failed else {})}

    found = evaluate(made, records(made, values, 20), Path("/results/run"))
    left_out = "of 20 loads failed and are left out: the server ended"
    expected = [
        f"problem: {THREADS.name} in the baseline: 1 {left_out}",
        f"problem: {THREADS.name} now: 2 {left_out}",
    ]
    assert formats.as_dict(found)["flags"] == expected
    assert all(line in " ".join(formats.render(found, "text").split()) for line in expected)
