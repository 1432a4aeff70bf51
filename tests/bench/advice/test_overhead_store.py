"""The overheads of a machine: measured in rounds, stored for a limited time, and averaged."""

from __future__ import annotations

import json
import math
import runpy
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from offload.bench.advice.inputs import (
    overhead,
    overhead_measurement,
    overhead_store,
    typical_overhead,
)
from offload.bench.advice.inputs.overhead import WAITING_WORKERS, Overhead
from offload.bench.advice.inputs.overhead_measurement import (
    COMPUTES,
    COMPUTES_WITHOUT_GIL,
    NOOP,
    SENDS,
    WAITS,
    Overheads,
)
from offload.bench.advice.inputs.overhead_store import StoredRound
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.records.record import WINDOW, Record
from offload.errors import RunError
from offload.flags import UNAVAILABLE, Problem
from offload.registry import places
from offload.suites import Case
from tests.bench.advice.probes import OVERHEADS
from tests.records import changed, new_record

ONE = OVERHEADS["threads"]
STORED = {name: replace(ONE, computing=ONE, megabyte=ONE, python_s=0.02) for name in STRATEGIES}
STORED |= {name: replace(STORED[name], waiting=ONE, idle_s=0.0003) for name in WAITING_WORKERS}
WEIGHTED = typical_overhead.weight_with_typical(STORED, rounds=1)


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store the overheads in a folder of the test."""
    path = tmp_path / "overheads.json"
    monkeypatch.setattr(overhead_store, "_file", lambda: path)
    return path


@pytest.mark.parametrize(("age_s", "is_used"), [(60.0, True), (1e9, False), (-3600.0, False)])
def test_overheads_of_another_time_are_measured_again(age_s: float, is_used: bool) -> None:
    overhead_store._save([StoredRound(time.time() - age_s, STORED)])
    assert bool(overhead_store.load()) is is_used


@pytest.mark.parametrize(
    "damage",
    [
        {"serial_s": -1},
        {"waiting": None},
        {"computing": None},
        {"megabyte": None},
        {"python_s": None},
        {"python_s": -1.0},
        {"idle_s": None},
        {"idle_s": -0.001},
        {"waiting": {"serial_s": 0.001, "cpu_s": 0.0}},
    ],
)
def test_damaged_overheads_are_measured_again(damage: dict[str, object], file: Path) -> None:
    overhead_store._save([StoredRound(time.time(), STORED)])
    values = json.loads(file.read_text())
    values["rounds"][0]["overheads"]["threads"] |= damage
    file.write_text(json.dumps(values))
    assert overhead_store.load() == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": 1, "rounds": 2}'])
def test_a_file_of_another_version_is_measured_again(text: str, file: Path) -> None:
    file.write_text(text)
    assert overhead_store.load() == []


def test_the_median_of_rounds_is_taken_at_their_median_speed() -> None:
    slower = {name: replace(each, python_s=0.06) for name, each in STORED.items()}
    found = overhead.median([STORED, slower])["pipes"]
    assert found.python_s == pytest.approx(0.04)
    # scaled to 40 ms of fixed work, the first round is doubled, and the second is 2/3 of itself
    assert found.cpu_s == pytest.approx(ONE.cpu_s * (2 + 2 / 3) / 2)
    assert found.waiting is not None
    assert found.waiting.serial_s == pytest.approx(ONE.serial_s * (2 + 2 / 3) / 2)
    assert found.idle_s == pytest.approx(0.0003 * 2 / 3)  # disturbance only increases it
    assert overhead.median([STORED]) == STORED
    unknown = {**STORED, "pipes": replace(STORED["pipes"], idle_s=None)}
    assert overhead.median([STORED, unknown])["pipes"].idle_s is None


def test_one_disturbed_round_of_three_changes_little() -> None:
    pipes = STORED["pipes"]
    disturbed = {**STORED, "pipes": replace(pipes, idle_s=0.018, cpu_s=9 * pipes.cpu_s)}
    assert overhead.median([STORED, disturbed, STORED]) == STORED
    assert overhead.median([disturbed, STORED])["pipes"].idle_s == pipes.idle_s


def test_overheads_are_proportional_to_the_time_of_fixed_work() -> None:
    slower = STORED["pipes"].at(0.03)
    assert slower.cpu_s == pytest.approx(1.5 * ONE.cpu_s)
    assert slower.waiting is not None
    assert slower.waiting.serial_s == pytest.approx(1.5 * ONE.serial_s)
    assert slower.idle_s == pytest.approx(0.00045)
    assert STORED["pipes"].at(None) == STORED["pipes"]
    assert ONE.at(0.03) == ONE  # its own speed is unknown


def test_an_incomplete_file_of_overheads_is_not_readable() -> None:
    known = {name: asdict(each) for name, each in STORED.items()}
    assert overhead.read(known) == STORED
    older = {name: {"serial_s": 0.001, "cpu_s": 0.002} for name in STRATEGIES}
    assert overhead.read(older) == dict.fromkeys(STRATEGIES, Overhead(0.001, 0.002))
    del known["pipes"]
    with pytest.raises(ValueError, match="the overhead of pipes is missing"):
        overhead.read(known)
    with pytest.raises(ValueError, match="the overhead of loop is not a time"):
        overhead.read({**older, "loop": {"serial_s": 0.0, "cpu_s": 0.002}})


def windows(**other: dict[str, object]) -> dict[tuple[str, str], list[Record]]:
    """Return a window of 1,000 requests/s for each strategy and task; 500 if it takes more CPU.

    `other` are the different values of the tasks that wait, by strategy.
    """
    values: dict[str, object] = {"rate": 1000.0, "completed": 2000}
    values |= {"server_cpu_s": 1.0, "driver_cpu_s": 0.2}
    found = {}
    for task in (NOOP, WAITS, COMPUTES, COMPUTES_WITHOUT_GIL, SENDS):
        for name in WAITING_WORKERS if task == WAITS else STRATEGIES:
            own = {**values, **(other.get(name, {}) if task == WAITS else {})}
            if task not in (NOOP, WAITS):
                own |= {"rate": 500.0, "server_cpu_s": 2.0 if task == SENDS else 6.0}
                own |= {"task_cpu_s": 0.002}
            found[name, task] = [changed(new_record(Case(name, task), "overhead"), **own)]
    return found


def test_overheads_are_those_of_the_windows() -> None:
    found, problem = overhead_measurement._of_windows(windows(pipes={"rate": 500.0}), 2)
    assert problem is None
    megabyte = Overhead(pytest.approx(0.001), pytest.approx(0.0005))
    computing = Overhead(pytest.approx(0.0005 / 0.6), pytest.approx(0.0005))
    assert found["loop"] == Overhead(0.001, pytest.approx(0.0006), None, computing, megabyte)
    assert found["prefork"].serial_s == 0.002  # it has two loops
    assert found["prefork"].megabyte == Overhead(0.002, pytest.approx(0.0005))
    assert found["pipes"].waiting == Overhead(0.002, pytest.approx(0.0006))
    # 1.9 of the cores were free for 2 ms per request, and a request used 3.1 ms of CPU time
    assert found["pipes"].idle_s == pytest.approx(1.9 * 0.002 - 0.0031)
    assert found["loop"].idle_s is None


def test_a_window_with_a_problem_does_not_count() -> None:
    known = windows()
    [valid] = known["pipes", COMPUTES]
    failed = changed(valid, problem=Problem(UNAVAILABLE, "it died"), task_cpu_s=1.0)
    expected = overhead_measurement._of_windows(known, 2)
    known["pipes", COMPUTES] = [valid, failed]
    assert overhead_measurement._of_windows(known, 2) == expected


def test_a_task_that_keeps_all_cores_busy_leaves_hardly_any_of_them_idle() -> None:
    busy = [changed(windows()["pipes", COMPUTES][0], server_cpu_s=8.0)]
    assert overhead_measurement._idle_s("pipes", busy, 2, 0.001) == overhead_measurement.SHORTEST


def test_cores_that_are_idle_behind_a_saturated_event_loop_do_not_count() -> None:
    """On 16 cores, 2 ms of computing would permit 8,000/s, but one event loop serves 2,000/s."""
    saturated = [changed(windows()["pipes", COMPUTES][0], rate=2000.0, completed=4000)]
    idle_s = overhead_measurement._idle_s("pipes", saturated, 16, serial_s=0.0004)
    assert idle_s == overhead_measurement.SHORTEST
    found = overhead_measurement._idle_s("prefork", saturated, 16, serial_s=0.0004)
    assert found == pytest.approx(15.9 * 0.0005 - 0.00155)


def test_every_worker_that_computes_has_requests() -> None:
    users = [overhead_measurement._case("pipes", COMPUTES, n).users for n in (1, 2, 32)]
    assert users == [4, 8, 64]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ({"problem": Problem(UNAVAILABLE, "it died")}, "pipes: not available: it died"),
        ({"rate": None}, "pipes: its rate or CPU time is unknown"),
        ({"rate": 0.0, "completed": 0}, "pipes: its rate or CPU time is unknown"),
        ({"server_cpu_s": None}, "pipes: its rate or CPU time is unknown"),
        ({"driver_cpu_s": None}, "pipes: its rate or CPU time is unknown"),
    ],
)
def test_strategies_are_compared_by_a_task_that_waits_only_if_all_have_its_overhead(
    failure: dict[str, object], reason: str
) -> None:
    found, problem = overhead_measurement._of_windows(windows(pipes=failure), 2)
    assert problem == reason
    assert [each.waiting for each in found.values()] == [None] * len(STRATEGIES)
    assert [each.computing for each in found.values()] == [None] * len(STRATEGIES)
    assert [each.megabyte for each in found.values()] == [None] * len(STRATEGIES)


def test_an_unknown_overhead_of_a_task_that_does_nothing_is_an_error() -> None:
    broken = windows()
    broken["threads", NOOP] = [changed(broken["threads", NOOP][0], server_cpu_s=None)]
    with pytest.raises(RunError, match=r"^threads: its rate or CPU time is unknown$"):
        overhead_measurement._of_windows(broken, 2)


def test_workers_that_limit_the_rate_do_not_reveal_the_time_on_the_event_loop() -> None:
    """On a fast machine all 8 workers wait for 2 ms at nearly 4,000 requests/s."""
    idle = Overhead(0.0001, 0.0002)
    assert overhead_measurement._waiting("pipes", idle, 0.00026, 0.0003) == Overhead(0.0001, 0.0003)
    assert overhead_measurement._waiting("pipes", idle, 0.0004, 0.0003) == Overhead(0.0004, 0.0003)
    assert overhead_measurement._waiting("prefork", idle, 0.0004, 0.0003) == Overhead(
        0.0001, 0.0003
    )


def test_the_task_that_waits_waits_as_long_as_the_overhead_assumes() -> None:
    assert places.CHECKOUT is not None
    task = runpy.run_path(str(places.CHECKOUT / "tasks/sleep.py"))
    assert task["CACHE"] == overhead_measurement.WAIT_S


def test_each_answer_measures_one_round_until_enough_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[float] = []

    def measure_round(*arguments: Any, **options: object) -> list[Record]:
        measured.append(0.0)
        return _round(0.0, *arguments, **options)

    monkeypatch.setattr(overhead_measurement, "measure_round", measure_round)
    for number in range(1, overhead_store.ROUNDS + 3):
        overhead_store.load_or_measure(_ignore, math.inf)
        assert len(measured) == min(number, overhead_store.ROUNDS)
    assert len(measured) == len(overhead_store.load()) == overhead_store.ROUNDS


def test_without_a_stored_round_the_overheads_are_typical() -> None:
    typical = Overheads(typical_overhead.TYPICAL, are_typical=True)
    assert overhead_store.load_or_typical() == typical
    overhead_store._save([StoredRound(time.time(), STORED)])
    assert overhead_store.load_or_typical() == Overheads(WEIGHTED)


def test_a_disturbed_round_is_not_stored_and_used_only_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports: list[str] = []
    monkeypatch.setattr(overhead_measurement, "measure_round", partial(_round, 0.5))
    disturbed = overhead_store.load_or_measure(reports.append, math.inf)
    assert disturbed.overheads["pipes"].waiting is not None
    warning = "the overhead is not certain: other processes used 50 % of the machine's CPU"
    assert disturbed.warning == warning
    assert overhead_store.load() == []
    overhead_store._save([StoredRound(time.time(), STORED)])
    assert overhead_store.load_or_measure(reports.append, math.inf) == Overheads(WEIGHTED)
    assert len(overhead_store.load()) == 1
    assert reports[-1] == f"{warning}; earlier values are used"


def test_a_round_that_fails_is_an_error_only_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: float) -> Overheads:
        raise RunError("threads: its rate or CPU time is unknown")

    monkeypatch.setattr(overhead_measurement, "measure", fail)
    with pytest.raises(RunError):
        overhead_store.load_or_measure(_ignore, math.inf)
    overhead_store._save([StoredRound(time.time(), STORED)])
    assert overhead_store.load_or_measure(_ignore, math.inf) == Overheads(WEIGHTED)


def test_a_measurement_that_takes_too_long_is_replaced_by_typical_or_earlier_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(*arguments: Any, **options: object) -> list[Record]:
        clock[0] += 40.0
        arguments[3]("baseline", 1.0)
        return _round(0.0, arguments[0])

    reports: list[str] = []
    typical = Overheads(typical_overhead.TYPICAL, are_typical=True)
    monkeypatch.setattr(overhead_measurement, "measure_round", start)
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert overhead_store.load_or_measure(reports.append, 1029.0) == typical
    assert reports == []  # it was not started
    assert overhead_store.load_or_measure(reports.append, 1031.0) == typical
    limit = "the strategies' overhead took more than 31 s"
    assert reports[-1] == f"{limit}; typical values are used"
    assert overhead_store.load() == []
    overhead_store._save([StoredRound(time.time(), STORED)])
    assert overhead_store.load_or_measure(reports.append, clock[0] + 31.0) == Overheads(WEIGHTED)
    assert reports[-1] == f"{limit}; earlier values are used"
    assert len(overhead_store.load()) == 1


def _ignore(_: str) -> None:
    """Ignore a report."""


def _round(
    others_cpu: float, block: Mapping[int, Case], *_: object, **options: object
) -> list[Record]:
    found = windows()
    return [
        changed(
            found[case.server, case.task][0],
            kind=WINDOW,
            place=n,
            others_cpu=others_cpu,
            python_s=0.03,
        )
        for n, case in block.items()
    ]


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.timeout(180)
def test_measured_overheads_are_those_of_workers_that_compute_and_that_sleep() -> None:
    measured = overhead_measurement.measure(math.inf)
    found = measured.overheads
    assert [*found] == [*STRATEGIES]
    assert found["loop"].waiting is None
    for name in STRATEGIES[1:]:
        waiting = found[name].waiting
        assert waiting is not None
        assert found[name].cpu_s / 3 < waiting.cpu_s < 30 * found[name].cpu_s
        assert 0 < waiting.serial_s < 0.1
        assert 0 < (found[name].idle_s or 0.0) < 0.1
    assert measured.warning is not None or overhead.is_complete(found)
