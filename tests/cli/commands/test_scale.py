"""`offload scale`: rates by workers or users, with a fitted curve if there are enough points."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from offload.cli import runner
from offload.documents import html_report
from offload.documents.text import render
from offload.engine.plan import MOST, Block, Plan
from offload.engine.record import WINDOW, Record
from offload.errors import RunError
from offload.studies.gil import cost as gil_cost
from offload.studies.gil.direct_calls import SpeedUp
from offload.studies.scale import curve, sweep
from offload.studies.scale import grid as grids
from offload.studies.scale.models import KNEE, MAX_RESIDUAL
from offload.suites import Case
from tests import ROOT
from tests.commands import FAB, fab, fab_here
from tests.records import changed, new_record
from tests.rounds import measure_cases
from tests.waiting import read_line

MANY = "+".join(map(str, range(1, 13)))
REFUSED = "rates only, no model: 2 different numbers: "
SLEEP_S = 0.05  # of a task that keeps one worker for so long, and no CPU


def test_not_all_servers_of_a_long_sweep_are_started_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans: list[Plan] = []

    def planned(plan: Plan, is_opened: bool) -> None:
        plans.append(plan)
        raise RunError("planned")

    monkeypatch.setattr(runner, "start_run", planned)
    assert fab_here(f"scale:3/noop_sync,workers={MANY}").returncode == RunError.exit_code
    fab_here("scale:3x2/noop_sync,users=1+2+3+4")
    fab_here("scale:3/noop_sync,processes=1..4,workers=8..64")
    fab_here("scale:3x8/noop_sync,processes=1+2")
    fab_here("scale:prefork/noop_sync,processes=1..3")
    fab_here("scale:3/noop_sync,processes=2,workers=1+2")
    over_workers, over_users, *over_sizes = plans
    assert {place for block in over_workers.blocks for place in block.cases} == {*range(12)}
    assert max(len(block.cases) for block in over_workers.blocks) == MOST
    assert over_users.blocks == (Block((0, 1, 2, 3)),)
    varied = [sweep.varied(plan.cases) for plan in plans]
    grid, over_processes, of_prefork, of_two = [sweep.varied(p.cases) for p in over_sizes]
    assert varied[:2] == [sweep.WORKERS, sweep.USERS]
    assert (grid, over_processes) == (sweep.SIZES, sweep.PROCESSES)
    assert (of_prefork, of_two) == (sweep.WORKERS, sweep.WORKERS)
    names = [case.name.partition("/")[0] for case in over_sizes[0].cases]
    assert names == [f"3x{p}x{t}" for p in (1, 2, 4) for t in (8, 16, 32, 64)]
    assert {each.settings["processes"] for each in over_sizes[3].cases} == {2}


def test_one_number_is_refused_because_it_varies_nothing() -> None:
    for words in ("scale:3/noop_sync,workers=4", "scale:3x4/noop_sync,users=8"):
        refused = fab_here(words)
        assert (refused.returncode, "varies nothing" in refused.stderr) == (2, True), refused.stderr


def test_failed_loads_of_each_point_are_reported() -> None:
    """The rate of a point is that of its other loads; a point without others has none."""

    def windows(users: int, failed: int) -> list[Record]:
        good = changed(
            new_record(Case("threads", "noop_sync", users=users), "run"),
            **{"kind": WINDOW, "block": 0, "case_index": users, "rate": 100.0, "quick": True},
        )
        bad = changed(good, rate=None, problem="the server ended")
        return [changed(bad if n <= failed else good, round=n) for n in (1, 2, 3)]

    found = sweep.fit([*windows(1, 0), *windows(2, 1), *windows(4, 3)], sweep.USERS)
    left_out = "loads failed and are left out: the server ended"
    expected = [f"problem: users=2: 1 of 3 {left_out}", f"problem: users=4: 3 of 3 {left_out}"]
    assert render(curve.document(found)).splitlines()[-2:] == expected
    values = curve.values(found)
    assert values["flags"] == expected
    assert [point["rate"] for point in values["points"]] == [pytest.approx(100)] * 2 + [None]


def test_each_rate_of_the_model_is_beside_its_own_point() -> None:
    """A number of users that no server survives has a row, but is not in the model."""

    def windows(users: int, rate: float | None) -> list[Record]:
        problem = "the server ended" if rate is None else None
        made = changed(
            new_record(Case("threads", "noop_sync", users=users), "run"),
            **{"kind": WINDOW, "block": 0, "case_index": users, "rate": rate, "problem": problem},
        )
        return [changed(made, round=n, quick=True) for n in (1, 2, 3)]

    rates = {1: 10.0, 2: 20.0, 3: None, 4: 40.0, 6: 40.5, 8: 40.2, 12: 40.1}
    found = sweep.fit([r for users, rate in rates.items() for r in windows(users, rate)], "users")
    rows = curve.document(found).rows
    assert [int(row[0]) for row in rows] == [*rates]
    for row, rate in zip(rows, rates.values(), strict=True):
        if rate is None:
            assert row[1:] == ("-", "-", "-")
        else:
            assert float(row[-1].removesuffix("/s")) == pytest.approx(rate, rel=0.1)


@pytest.mark.server
def test_two_points_are_no_curve_which_is_reported_before_they_are_measured() -> None:
    words = "scale:3/sleep_short_sync,workers=1+2,users=4"
    run = subprocess.Popen([FAB, words], cwd=ROOT, stdout=-3, stderr=-1)
    try:
        assert read_line(run.stderr).startswith(REFUSED)
        assert read_line(run.stderr).startswith("2 rows: rounds of short loads by builtin: ")
    finally:
        run.send_signal(signal.SIGINT)
        _, rest = run.communicate(timeout=20)
    assert run.returncode == 130, rest


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_points_have_rates_and_no_model() -> None:
    said = fab("scale:3/sleep_short_sync,workers=1+2,users=4,format=json", timeout=580)
    found = json.loads(said.stdout)
    assert [point["workers"] for point in found["points"]] == [1, 2]
    assert (found["model"], "different" in found["refused"]) == (None, True)
    assert said.stderr.startswith(REFUSED)


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sleeping_workers_follow_the_knee_of_their_users() -> None:
    """6 users keep up to 6 workers busy; of more, some always wait for a user."""
    numbers = [1, 2, 3, 6, 9, 12]
    over = "+".join(map(str, numbers))
    said = fab(f"scale:3/sleep_short_sync,workers={over},users=6,format=json", timeout=880)
    found = json.loads(said.stdout)
    assert said.returncode == 0, said.stderr
    assert "no model" not in said.stderr
    assert [point["workers"] for point in found["points"]] == numbers
    for point in found["points"]:
        expected = min(point["workers"], 6) / SLEEP_S
        assert point["rate_low"] <= point["rate"] <= point["rate_high"]
        assert 0.5 * expected < point["rate"] < 1.05 * expected
    assert (found["model"], found["refused"]) == (KNEE, None)
    assert found["residual"] <= MAX_RESIDUAL
    assert 4 < found["peak"] < 8


def test_a_disturbed_sweep_and_gil_cost_end_with_exit_code_7(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The figures are printed all the same."""

    def windows(place: int, case: Case) -> list[Record]:
        made = changed(
            new_record(case, "run"),
            **{"kind": WINDOW, "block": 0, "case_index": place, "quick": True},
            **{"rate": 100.0 + place, "others_cpu": 0.5, "completed": 10},
        )
        return [changed(made, round=n) for n in (1, 2, 3)]

    def measured(plan: Plan, is_opened: bool) -> tuple[Path, list[Record]]:
        return tmp_path, [w for place, case in enumerate(plan.cases) for w in windows(place, case)]

    monkeypatch.setattr(runner, "start_run", measured)
    even = SpeedUp(1.0, 1.0, gil_enabled=True)
    monkeypatch.setattr(gil_cost, "measure_direct", lambda *_: dict.fromkeys(gil_cost.KINDS, even))
    for words in ("scale:3x2/noop_sync,users=1+2", "gil:noop_sync"):
        ended = fab_here(words)
        assert ended.returncode == 7, ended
        assert ended.stdout.startswith("No verdict: disturbed: other processes used 50 %")
        assert ended.stderr.splitlines()[-1].startswith("error: no verdict: end the other proc")


WRONG = {
    "3x2/noop_sync,workers=1+2": "has a number of workers, and workers= varies it: leave x2 out",
    "3x2x4/noop_sync,processes=1+2": "has a number of processes, and processes= varies it",
    "3/noop_sync,processes=0+2": "processes='0' is not a whole number from 1 to 64",
    "3/noop_sync,processes=1..65": "is not a whole number from 1 to 64",
    "3/noop_sync,processes=2,workers=8": "varies nothing",
    "3/noop_sync,processes=64,workers=128+256": "64 processes of 128 workers are 8192",
    "3/noop_sync,processes=1+2+3+4+5+6+7,workers=1+2+3+4+5+6": "42 sizes are more than 36",
    "prefork/noop_sync,processes=1+2,workers=1+2": "prefork has one size",
    "4/noop_sync,processes=1+2": "processes has one process that accepts connections",
    "1/noop_sync,workers=1+2": "sync has no workers",
}


@pytest.mark.parametrize(("words", "message"), WRONG.items())
def test_wrong_sizes_are_one_line(words: str, message: str) -> None:
    done = fab_here(f"scale:{words}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr


def gridded(rates: dict[tuple[int, int], float], **values: object) -> sweep.Grid:
    """A grid whose sizes have two windows each, of which one is 1 % faster."""
    own = []
    for (processes, workers), rate in rates.items():
        settings = {"processes": processes, "workers": workers}
        record = new_record(Case("threads", "noop_sync", settings=settings), "run", None)
        for number, factor in ((1, 0.995), (2, 1.005)):
            own.append(
                changed(
                    record,
                    kind=WINDOW,
                    round=number,
                    rate=rate * factor,
                    completed=100,
                    workers=workers,
                    settings={"processes": processes},
                    **values,
                )
            )
    return sweep.fit_grid(own)


def test_a_grid_shows_each_pair_of_sizes_and_the_fewest_that_are_enough() -> None:
    rates = {(1, 8): 200.0, (1, 32): 400.0, (2, 8): 396.0, (2, 32): 404.0}
    grid = gridded(rates)
    assert (grid.highest[0], grid.enough) == ((2, 32), (1, 32))
    found = grids.document(grid)
    assert found.head == ("processes", "8 workers", "32 workers")
    assert [row[0] for row in found.rows] == ["1", "2"]
    assert found.rows[0][1].startswith("200.00/s")
    assert found.rows[1][2].startswith("403.99/s")  # a geometric mean
    values = grids.values(grid)
    assert values["highest_at"] == {"processes": 2, "workers": 32}
    assert values["enough_at"] == {"processes": 1, "workers": 32}
    assert [(p["processes"], p["workers"]) for p in values["points"]] == [*rates]
    sentence = grids.sentences(grid)[0]
    assert sentence.startswith("Highest rate: 403.99/s with 2 processes of 32 workers; at least 97")
    assert "with 1 process of 32 workers" in sentence


def test_a_grid_has_a_picture_with_a_line_for_each_number_of_processes() -> None:
    rates = {(1, 8): 200.0, (1, 32): 400.0, (2, 8): 396.0, (2, 32): 404.0}
    [chart] = grids.document(gridded(rates)).charts
    assert [each.name for each in chart.curves] == ["1 process", "2 processes"]
    assert [workers for workers, _ in chart.curves[0].places] == [8, 32]
    assert [round(rate) for _, rate in chart.curves[1].places] == [396, 404]
    assert len(chart.spots) == 4
    assert all((spot.low or 0.0) < spot.y < (spot.high or 0.0) for spot in chart.spots)
    [section] = html_report.chart_sections(grids.document(gridded(rates)), "offload scale")
    picture = section.panels[0].picture
    assert picture is not None and "2 processes" in "".join(picture.svg.itertext())


@pytest.mark.server
def test_a_grid_is_fitted_to_measured_records() -> None:
    one = Case("threads", "sleep_short_sync", 8)
    grid = sweep.fit_grid(measure_cases(*sweep.grid_cases(one, [1, 2], [1, 4])))
    assert [*grid.points] == [(1, 1), (1, 4), (2, 1), (2, 4)]
    rates = {size: estimate.value or 0.0 for size, estimate in grid.points.items()}
    assert rates[2, 4] > 2 * rates[1, 1]  # eight calls at once against one
