"""A run with edited files is resumed, or refused with a one-line error, never a traceback."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offload.engine import journal
from offload.engine.plan import Block
from offload.studies.gate.rule import Gate, GateTerms
from offload.suites import Case
from tests.bench.experiments.test_run import Measured
from tests.cli.commands.test_resume import PLAN, a_run
from tests.commands import fab_here
from tests.properties import examples

ODD = (None, True, -1, 0, 1.5, 1e300, 10**30, "", "x", "../x", [], [1], [-1], [[0]], {}, {"a": 1})
SUITES = (
    *("compare", "gil", "scale", "advise", "measure", "tornado"),
    "gate",
)
REFUSED = (2, 3, 5, 6, 7)


@pytest.fixture(scope="module", autouse=True)
def _no_servers() -> Iterator[None]:
    """Measure no real server if a changed plan has more rounds."""
    with pytest.MonkeyPatch.context() as patch:
        Measured(patch)
        yield


@pytest.fixture(autouse=True)
def _as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not call the task of a finished `gil`, which takes 10 s."""
    from offload.studies.gil import cost as gil_cost
    from offload.studies.gil.direct_calls import SpeedUp

    even = SpeedUp(1.0, 1.0, gil_enabled=True)
    monkeypatch.setattr(gil_cost, "measure_direct", lambda *_: dict.fromkeys(gil_cost.KINDS, even))


def places(values: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in nested JSON."""
    items: list[tuple[Any, Any]] = []
    if isinstance(values, dict):
        items = [*values.items()]
    elif isinstance(values, list):
        items = [*enumerate(values)]
    return [path, *(p for key, each in items for p in places(each, (*path, key)))]


@st.composite
def edits(draw: st.DrawFn, values: Any) -> Any:
    """Return the values with one or two changes: removed, repeated, or another value."""
    values = copy.deepcopy(values)
    for _ in range(draw(st.integers(1, 2))):
        *parts, last = draw(st.sampled_from([p for p in places(values) if p]))
        part = values
        for key in parts:
            part = part[key]
        kind = draw(st.sampled_from(["remove", "repeat", "replace", "replace"]))
        if kind == "remove":
            del part[last]
        elif kind == "repeat" and isinstance(part, list):
            part.append(copy.deepcopy(part[last]))
        else:
            part[last] = copy.deepcopy(draw(st.sampled_from(ODD)))
        if not any(places(values)):
            break
    return values


def saved(suite: str) -> tuple[str, Any]:
    """Write a finished run; return its name and the values of its plan."""
    folder = journal.RESULTS / a_run(suite, cpu_ms_per_request=0.5)
    cases = tuple(replace(case, settings={"workers": 1 + n}) for n, case in enumerate(PLAN.cases))
    rule = replace(PLAN.rule, target=0.05, budget_s=30.0)
    if suite == "gate":
        rule = Gate(gate=GateTerms(0.05, min_rate=1.0), quick=True, target=0.05, budget_s=30.0)
    made = replace(PLAN, suite=suite, cases=cases, rule=rule)
    journal.save_plan(made, folder)
    return folder.name, json.loads((folder / journal.RUN_FILE).read_text())


def assert_refused_or_resumed(run: str) -> None:
    found = fab_here(f"resume:{run}")
    assert found.returncode in (0, 1, *REFUSED), found.stderr
    if found.returncode in REFUSED:
        errors = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, found.stderr


@pytest.mark.parametrize("suite", SUITES)
@examples(8)
@given(data=st.data())
def test_an_edited_plan_is_resumed_or_refused_in_one_line(
    suite: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "RESULTS", tmp_path_factory.mktemp("r"))
        run, values = saved(suite)
        edited = data.draw(edits(values))
        (journal.RESULTS / run / journal.RUN_FILE).write_text(json.dumps(edited))
        assert_refused_or_resumed(run)


@examples(8)
@given(data=st.data())
def test_edited_records_are_reported_or_refused_in_one_line(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "RESULTS", tmp_path_factory.mktemp("r"))
        run, _ = saved("compare")
        path = journal.RESULTS / run / journal.FILE
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        edited = data.draw(edits(lines))
        path.write_text("".join(f"{json.dumps(line)}\n" for line in edited))
        assert_refused_or_resumed(run)
        found = fab_here(f"report:{run}")
        assert found.returncode in (0, *REFUSED), found.stderr


BROKEN: dict[str, dict[str, Any]] = {
    "seconds=-4.0 must be more than 0": {"cases": [{"seconds": -4.0}]},
    "users=0 must be from 1 to": {"cases": [{"users": 0}]},
    "requests=0 must be from 1 to": {"cases": [{"requests": 0}]},
    "clients=-1 must be from 1 to": {"cases": [{"clients": -1}]},
    "rounds=1000000 must be from 1 to": {"rounds": 10**6},
    "budget_s=-1.0 must be at least 0": {"budget_s": -1.0},
    "target=0.0 must be more than 0": {"target": 0.0},
    "setting workers='x' is not a number": {"cases": [{"settings": {"workers": "x"}}]},
    "setting workers='99999999999999999999' is not": {
        "cases": [{"settings": {"workers": "9" * 4000}}]
    },
    "a block has no case": {"blocks": [{"cases": []}]},
    "a block has a case or a pair twice": {"blocks": [{"cases": [0] * 100_000}]},
    "a block has cases (-1,)": {"blocks": [{"cases": [-1]}]},
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_plan_of_impossible_values_is_refused_with_6(words: str) -> None:
    folder = journal.new_run("measure")
    one = replace(PLAN, cases=(Case("threads", "noop_sync"),), blocks=(Block((0,)),))
    journal.save_plan(one, folder)
    path: Path = folder / journal.RUN_FILE
    values = json.loads(path.read_text())
    for key, value in BROKEN[words].items():
        is_case = key == "cases" and value
        values[key] = [{**values["cases"][0], **value[0]}] if is_case else value
    path.write_text(json.dumps(values))
    found = fab_here(f"resume:{folder.name}")
    assert (found.returncode, found.stdout) == (6, "")
    [line] = found.stderr.splitlines()
    assert words in line
    assert line.startswith("error: ")
    assert str(path) in line


def test_a_deeply_nested_plan_is_one_line() -> None:
    """The JSON parser raises RecursionError instead of ValueError."""
    folder = journal.RESULTS / a_run("measure")
    (folder / journal.RUN_FILE).write_text("[" * 100_000)
    for command in ("resume", "report", f"resume:{folder.name}"):
        ended = fab_here(command)
        assert "Traceback" not in ended.stderr, command
        assert ended.returncode in (0, *REFUSED)


@pytest.mark.parametrize("text", ["[1]", "null", '"cases"'])
def test_a_plan_that_is_no_object_is_refused_with_its_reason(text: str) -> None:
    folder = journal.RESULTS / a_run("measure")
    (folder / journal.RUN_FILE).write_text(text)
    ended = fab_here(f"resume:{folder.name}")
    assert (ended.returncode, "it is not a JSON object" in ended.stderr) == (6, True)


HUGE: dict[str, Callable[[Any], str]] = {
    "it has 100000 cases, and at most 1000": lambda v: json.dumps(
        {**v, "cases": [{"server": "sync", "task": "noop_sync"}] * 100_000}
    ),
    "it has 2000 blocks": lambda v: json.dumps({**v, "blocks": [{"cases": [0]}] * 2000}),
    "Larger than 16 MiB": lambda v: json.dumps(v) + " " * (17 << 20),
    "the key 'cases' is repeated": lambda v: json.dumps(v)[:-1] + ', "cases": []}',
    "NaN is not a valid number": lambda v: json.dumps({**v, "budget_s": float("nan")}),
    "1e999 is not a valid number": lambda v: json.dumps(v)[:-1] + ', "more": 1e999}',
    "it is nested too deeply": lambda v: '{"cases":' + "[" * 100_000,
}


@pytest.mark.parametrize("words", HUGE)
def test_a_huge_or_ambiguous_plan_is_one_line_in_each_command(words: str) -> None:
    folder = journal.RESULTS / a_run("measure")
    path = folder / journal.RUN_FILE
    path.write_text(HUGE[words](json.loads(path.read_text())))
    for command, code in (("resume", 6), ("report", 0)):
        found = fab_here(f"{command}:{folder.name}")
        [line] = found.stderr.splitlines()
        assert (found.returncode, words in line, str(path) in line) == (code, True, True), line


def test_records_of_100_gb_are_one_line() -> None:
    folder = journal.RESULTS / a_run("measure")
    os.truncate(folder / journal.FILE, 10**11)
    for command in ("resume", "report"):
        found = fab_here(f"{command}:{folder.name}")
        [line] = found.stderr.splitlines()
        assert (found.returncode, "Larger than 256 MiB" in line) == (6, True)


@pytest.mark.parametrize("bad", ["nonsense", "\0" * 100, '{"schema": 1' + "0" * 5000])
def test_many_lines_that_are_no_records_are_one_warning(bad: str) -> None:
    folder = journal.RESULTS / a_run("measure")
    with (folder / journal.FILE).open("a") as file:
        before = len((folder / journal.FILE).read_text().splitlines())
        file.write(f"{bad}\n" * 20_000)
    found = fab_here(f"report:{folder.name}")
    [line] = found.stderr.splitlines()
    listed = f"{before + 1}, {before + 2}, {before + 3}, ...;"
    assert (found.returncode, f"20000 lines are no records, skipped: {listed}" in line) == (0, True)


def test_deep_values_of_a_record_are_no_record(capsys: pytest.CaptureFixture[str]) -> None:
    """They would end a report that copies them by RecursionError."""
    folder = journal.RESULTS / a_run("measure")
    path = folder / journal.FILE
    values = json.loads(path.read_text().splitlines()[0])
    values["server"]["settings"] = json.loads('{"a":' * 300 + "1" + "}" * 300)
    path.write_text(f"{json.dumps(values)}\n")
    assert journal.read(folder) == []
    assert "nested too deeply" in capsys.readouterr().err
