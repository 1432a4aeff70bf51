"""Rates from rounds in which servers ran alone are not mixed with those of shared rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.documents import results_files
from offload.documents.rows import rows
from offload.engine import run as running
from offload.engine.figures import compare_windows, estimate_rate
from offload.engine.plan import Block, Plan, Sequential
from offload.engine.record import WINDOW, Record
from offload.suites import Case
from tests.bench.experiments.test_run import Measured
from tests.records import changed, new_record

CASES = (Case("threads", "noop_sync"), Case("processes", "noop_sync"))


def windows(place: int, block: int, rates: list[float], **values: Any) -> list[Record]:
    return [
        changed(
            new_record(CASES[place], "run"),
            **{"kind": WINDOW, "quick": True, "block": block, "round": number, "case_index": place},
            **{"rate": found, "completed": 100, "response_mean_s": 1 / found, **values},
        )
        for number, found in enumerate(rates, start=1)
    ]


ONE = windows(0, 0, [100.0, 101.0, 102.0])
OTHER = windows(1, 0, [100.0, 101.0, 102.0])
ONE_APART = windows(0, 1, [150.0, 151.0, 152.0], measured_alone=True, memory_pss_mib=20.0)
OTHER_APART = windows(1, 1, [300.0, 301.0, 302.0], measured_alone=True, memory_pss_mib=40.0)


def test_a_rate_is_of_the_rounds_side_by_side_if_there_are_some() -> None:
    found = estimate_rate([*ONE, *ONE_APART])
    assert found == estimate_rate(ONE)
    assert found.n == 3
    assert estimate_rate(ONE_APART).value == pytest.approx(151.0, rel=0.01)


def test_a_ratio_of_rates_is_of_the_rounds_side_by_side() -> None:
    both = [*ONE, *ONE_APART], [*OTHER, *OTHER_APART]
    found = compare_windows(*both)
    assert (found.verdict.pairs, found.verdict.outcome) == (3, "same")
    only_apart = compare_windows(ONE_APART, OTHER_APART)
    assert (only_apart.verdict.pairs, only_apart.verdict.outcome) == (3, "faster")


def test_the_memory_of_rounds_apart_counts() -> None:
    found = compare_windows(
        [*ONE, *ONE_APART],
        [*OTHER, *OTHER_APART],
        lambda record: record.resources.memory.pss_mib,
    )
    assert (found.verdict.pairs, found.verdict.ratio) == (3, pytest.approx(2.0))


def test_a_row_has_the_rate_and_the_times_of_one_kind_of_rounds() -> None:
    [row] = rows([*ONE, *ONE_APART])
    values = results_files.row_values(row)
    assert values["rounds"] == 3
    assert values["rate"] == pytest.approx(101.0, rel=0.01)
    assert values["response_mean_s"] == pytest.approx(1 / 101.0, rel=0.01)
    assert values["memory_pss_mib"] == 20.0


def test_a_run_records_which_rounds_ran_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Measured(monkeypatch)
    pair = Block((0, 1), ((0, 1),))
    plan = Plan(
        "measure",
        CASES,
        1,
        None,
        Sequential(quick=True),
        blocks=(pair, replace(pair, measured_alone=True)),
    )
    [*_, records] = running.run(plan, tmp_path)
    assert {(r.trial.block, r.trial.measured_alone) for r in records} == {(0, False), (1, True)}
