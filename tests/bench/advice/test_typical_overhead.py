"""Uncertain parts of a measured overhead are weighted with typical ones; certain parts are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.experiments import typical_overheads
from offload.bench.advice.inputs import overhead, typical_overhead
from offload.bench.advice.inputs.overhead import WAITING_WORKERS, Overhead
from offload.bench.advice.strategies import STRATEGIES

NOOP_S = 0.001
MEASURED = Overhead(0.0008, NOOP_S, Overhead(0.001, 0.002), Overhead(0.003, 0.004), idle_s=0.005)
TYPICAL = typical_overhead.TYPICAL["pipes"].scaled(NOOP_S / typical_overhead.TYPICAL["pipes"].cpu_s)


def weighted(rounds: int, found: Overhead = MEASURED) -> Overhead:
    return typical_overhead.weight_with_typical({"pipes": found}, rounds)["pipes"]


def test_the_typical_overheads_are_complete() -> None:
    assert list(typical_overhead.TYPICAL) == list(STRATEGIES)
    assert overhead.is_complete(typical_overhead.TYPICAL)


@pytest.mark.parametrize(("rounds", "weight"), [(1, 0.25), (3, 0.5)])
def test_typical_values_count_as_three_rounds(rounds: int, weight: float) -> None:
    found = weighted(rounds)
    assert found.computing is not None and TYPICAL.computing is not None
    assert found.idle_s is not None and TYPICAL.idle_s is not None
    expected = weight * 0.004 + (1 - weight) * TYPICAL.computing.cpu_s
    assert found.computing.cpu_s == pytest.approx(expected)
    expected = weight * 0.003 + (1 - weight) * TYPICAL.computing.serial_s
    assert found.computing.serial_s == pytest.approx(expected)
    expected = weight * 0.005 + (1 - weight) * TYPICAL.idle_s
    assert found.idle_s == pytest.approx(expected)


def test_certain_parts_do_not_change() -> None:
    found = weighted(1)
    same = replace(found, computing=MEASURED.computing, idle_s=MEASURED.idle_s)
    assert same == MEASURED


def test_unknown_parts_stay_unknown() -> None:
    unknown = replace(MEASURED, computing=None, idle_s=None)
    assert weighted(1, unknown) == unknown


def test_the_script_that_measures_them_again_prints_medians_at_the_typical_speed() -> None:
    waiting = dict.fromkeys(WAITING_WORKERS, MEASURED.waiting)
    rounds = [
        {
            name: replace(
                MEASURED.scaled(factor),
                waiting=waiting.get(name),
                megabyte=Overhead(0.01, 0.0201234),
                idle_s=None if name == "loop" else 0.005,
                python_s=0.04,
            )
            for name in STRATEGIES
        }
        for factor in (1.0, 1.1, 20.0)
    ]
    found = typical_overheads.lines(rounds)
    assert found[0] == '"loop": _typical(440, 550, (1650, 2200), (5000, 10100)),'
    assert found[-1] == (
        '"prefork": _typical(440, 550, (1650, 2200), (5000, 10100), (500, 1000), 2500),'
    )
    assert (len(found), typical_overheads.lines([])) == (len(STRATEGIES), [])
