"""Stored overheads are used for a limited time, and not if the clock was set back."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from offload.bench.advice import overhead
from offload.bench.advice.overhead import COMPUTES, IDLE, SENDS, SLEEPERS, WAITS, Overhead
from offload.bench.advice.strategies import STRATEGIES
from offload.bench.records.record import WINDOW, Record
from offload.errors import RunError
from offload.flags import UNAVAILABLE, Problem
from offload.registry import places
from offload.suites import Case
from tests.bench.advice.probes import OVERHEADS
from tests.records import changed, new_record

ONE = OVERHEADS["threads"]
KEPT = {
    name: replace(
        ONE, waiting=None if name == "loop" else ONE, computing=ONE, megabyte=ONE, python_s=0.02
    )
    for name in STRATEGIES
}


@pytest.mark.parametrize(("age_s", "is_used"), [(60.0, True), (1e9, False), (-3600.0, False)])
def test_overheads_of_another_time_are_measured_again(
    age_s: float, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    overhead._save(KEPT)
    values = json.loads((tmp_path / "overheads.json").read_text())
    (tmp_path / "overheads.json").write_text(json.dumps({**values, "utc": values["utc"] - age_s}))
    assert (overhead.load() is not None) is is_used


@pytest.mark.parametrize(
    "damage",
    [
        {"serial_s": -1},
        {"waiting": None},
        {"computing": None},
        {"megabyte": None},
        {"python_s": None},
        {"python_s": -1.0},
        {"waiting": {"serial_s": 0.001, "cpu_s": 0.0}},
    ],
)
def test_damaged_overheads_are_measured_again(
    damage: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    overhead._save(KEPT)
    values = json.loads((tmp_path / "overheads.json").read_text())
    values["overheads"]["threads"] |= damage
    (tmp_path / "overheads.json").write_text(json.dumps(values))
    assert overhead.load() is None


def test_overheads_are_proportional_to_the_time_of_fixed_work() -> None:
    slower = KEPT["pipes"].at(0.03)
    assert slower.cpu_s == pytest.approx(1.5 * ONE.cpu_s)
    assert slower.waiting is not None
    assert slower.waiting.serial_s == pytest.approx(1.5 * ONE.serial_s)
    assert KEPT["pipes"].at(None) == KEPT["pipes"]
    assert ONE.at(0.03) == ONE  # its own speed is unknown


def test_an_incomplete_file_of_overheads_is_not_readable() -> None:
    known = {name: asdict(each) for name, each in KEPT.items()}
    assert overhead.read(known) == KEPT
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
    for task in (IDLE, WAITS, COMPUTES, SENDS):
        for name in SLEEPERS if task == WAITS else STRATEGIES:
            own = {**values, **(other.get(name, {}) if task == WAITS else {})}
            if task in (COMPUTES, SENDS):
                own |= {"rate": 500.0, "server_cpu_s": 2.0 if task == SENDS else 6.0}
                own |= {"task_cpu_s": 0.002}
            found[name, task] = [changed(new_record(Case(name, task), "overhead"), **own)]
    return found


def test_overheads_are_those_of_the_windows() -> None:
    found, problem = overhead._of_windows(windows(pipes={"rate": 500.0}), 2)
    assert problem is None
    megabyte = Overhead(pytest.approx(0.001), pytest.approx(0.0005))
    computing = Overhead(pytest.approx(0.0005 / 0.6), pytest.approx(0.0005))
    assert found["loop"] == Overhead(0.001, pytest.approx(0.0006), None, computing, megabyte)
    assert found["prefork"].serial_s == 0.002  # it has two loops
    assert found["prefork"].megabyte == Overhead(0.002, pytest.approx(0.0005))
    assert found["pipes"].waiting == Overhead(0.002, pytest.approx(0.0006))


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
    found, problem = overhead._of_windows(windows(pipes=failure), 2)
    assert problem == reason
    assert [each.waiting for each in found.values()] == [None] * len(STRATEGIES)
    assert [each.computing for each in found.values()] == [None] * len(STRATEGIES)
    assert [each.megabyte for each in found.values()] == [None] * len(STRATEGIES)


def test_an_unknown_overhead_of_a_task_that_does_nothing_is_an_error() -> None:
    broken = windows()
    broken["threads", IDLE] = [changed(broken["threads", IDLE][0], server_cpu_s=None)]
    with pytest.raises(RunError, match=r"^threads: its rate or CPU time is unknown$"):
        overhead._of_windows(broken, 2)


def test_workers_that_limit_the_rate_do_not_reveal_the_time_on_the_event_loop() -> None:
    """On a fast machine all 8 workers wait for 2 ms at nearly 4,000 requests/s."""
    idle = Overhead(0.0001, 0.0002)
    assert overhead._waiting("pipes", idle, 0.00026, 0.0003) == Overhead(0.0001, 0.0003)
    assert overhead._waiting("pipes", idle, 0.0004, 0.0003) == Overhead(0.0004, 0.0003)
    assert overhead._waiting("prefork", idle, 0.0004, 0.0003) == Overhead(0.0001, 0.0003)


def test_the_task_that_waits_waits_as_long_as_the_overhead_assumes() -> None:
    assert places.CHECKOUT is not None
    task = runpy.run_path(str(places.CHECKOUT / "tasks/sleep.py"))
    assert task["CACHE"] == overhead.WAIT_S


def test_disturbed_overheads_are_used_once_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    for share, is_kept in ((0.5, False), (0.0, True)):
        monkeypatch.setattr(overhead, "measure_round", partial(_round, share))
        reports: list[str] = []
        assert overhead.measure(reports.append)["pipes"].waiting is not None
        assert (overhead.load() is not None) is is_kept
        assert [line.split(":")[0] for line in reports] == (
            [] if is_kept else ["the overhead is not certain"]
        )


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
def test_measured_overheads_are_those_of_workers_that_compute_and_that_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overhead, "_file", lambda: tmp_path / "overheads.json")
    reports: list[str] = []
    found = overhead.measure(reports.append)
    assert [*found] == [*STRATEGIES]
    assert found["loop"].waiting is None
    for name in STRATEGIES[1:]:
        waiting = found[name].waiting
        assert waiting is not None
        assert found[name].cpu_s / 3 < waiting.cpu_s < 30 * found[name].cpu_s
        assert 0 < waiting.serial_s < 0.1
    kept = overhead.load()
    assert (kept is None) is bool(reports)  # a disturbed measurement is not kept
    assert kept is None or kept.keys() == found.keys()
