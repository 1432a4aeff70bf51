"""The report of a run of two cases shows their comparison: its verdict and its ratio."""

from __future__ import annotations

import json

import pytest

from offload.documents import results_files
from offload.documents.results_files import tables
from offload.engine.record import Record
from tests import schemas
from tests.records import changed
from tests.reports.test_tables import RECORD, windows

ROUNDS = (10.0, 10.1, 9.9, 10.0, 10.0)


def compared(server: str, ratio: float, suite: str = "compare") -> list[Record]:
    """Return the windows of threads, and of another server at a ratio of their rates."""
    noise = (1.001, 0.999, 1.0, 1.001, 0.999)
    others = [rate * ratio * off for rate, off in zip(ROUNDS, noise, strict=True)]
    command = f"run_server:{server},xml"
    one = windows(RECORD, *ROUNDS, suite=suite, block=0, case_index=0)
    other = {"server": server, "command": command}
    return one + windows(RECORD, *others, suite=suite, block=0, case_index=1, **other)


@pytest.mark.parametrize("suite", ["compare", "gil"])
def test_a_comparison_is_reported_with_its_verdict_and_ratio(suite: str) -> None:
    text = tables(compared("pipes", 1.5, suite))
    assert text.splitlines()[:4] == [
        "faster: pipes/xml is faster than threads/xml",
        "ratio 1.500, 95 % interval 1.498 to 1.502, 5 rounds",
        "threads/xml: 10.00/s",
        "pipes/xml: 15.00/s",
    ]
    assert "unresolved" not in text


def test_a_case_compared_with_itself_has_two_rows_and_is_the_same() -> None:
    records = compared("threads", 1.0)
    records = [changed(record, command=RECORD.case.command, id="one") for record in records]
    text = tables(records)
    assert text.startswith("same: threads/xml is as fast as threads/xml\nratio 1.000")
    assert sum(line.startswith("threads/xml  ") for line in text.splitlines()) == 2


@pytest.mark.parametrize(
    ("server", "names"), [("processes", ("threads", "processes")), ("pipes", None)]
)
def test_json_has_the_comparison_as_its_effect(server: str, names: tuple[str, str] | None) -> None:
    text = json.dumps(results_files.run_values(compared(server, 1.5)))
    schemas.validate("report", text)
    found = json.loads(text)
    [effect] = found["effects"]
    assert (effect["one"], effect["other"]) == (names or ("threads/xml", "pipes/xml"))
    assert (effect["verdict"], effect["rounds"]) == ("faster", 5)
    assert effect["ratio"] == pytest.approx(1.5)


def test_json_of_a_disturbed_comparison_has_the_word_and_the_reason() -> None:
    records = [changed(record, others_cpu=0.45) for record in compared("processes", 1.5)]
    text = json.dumps(results_files.run_values(records))
    schemas.validate("report", text)
    found = json.loads(text)
    [effect] = found["effects"]
    assert effect["verdict"] == "disturbed"
    assert effect["flags"][0].startswith("disturbed: other processes used 45 %")
    assert found["flags"][0] == "other processes used up to 45 % of the CPU in 10 of 10 windows"
