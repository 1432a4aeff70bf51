"""A round of a block with real servers: side by side, in balanced order; all are stopped."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload import upstream
from offload.engine import server
from offload.engine.figures import rate_of
from offload.engine.processes import ResourceSampler
from offload.engine.record import Record, average_by_round
from offload.engine.rounds import Trial, WindowDesign, _order, load_phase, measure_round
from offload.errors import LOAD, StartError
from offload.suites import Case
from tests.installed import OWN, POOLS, newest_other_python, one_of_each_kind, require
from tests.records import value_of
from tests.rounds import measure_cases, measure_window
from tests.waiting import is_running, wait_until

pytestmark = pytest.mark.server
Alive = Callable[[], list[psutil.Process]]
TASK = "sleep_short_sync"  # leaves the CPU idle
THREADS, LOOP = Case("threads", TASK, users=2), Case("loop", TASK, users=2)


def case_of(name: str, task: str, **more: Any) -> Case:
    """Return a case of two workers, which start faster than more; skip what cannot run here."""
    require(name)
    return Case(name, task, settings={"workers": 2} if name in POOLS else {}, **more)


def own_task(folder: Path, body: str, name: str = "own") -> str:
    (folder / f"{name}.py").write_text(f"import os\n{body}")
    return f"{folder}/{name}.py:work"


class Loads:
    """What a round loads: for each load, its URL, the neighbours, and who of them is alive."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, Sequence[int], bool]] = []
        run = load_phase.run

        def watched(
            load: Any, driver: str, facts: Any, up: Any, neighbours: Sequence[int], *more: Any
        ) -> Any:
            alive = all(map(is_running, (int(facts["pid"]), *neighbours)))
            self.seen.append((load.url, neighbours, alive))
            return run(load, driver, facts, up, neighbours, *more)

        patch.setattr(load_phase, "run", watched)


@pytest.fixture(scope="module")
def measured() -> tuple[list[Record], Loads]:
    """One round of a case twice and another one, with the loads in their order."""
    with pytest.MonkeyPatch.context() as patch:
        loads = Loads(patch)
        return measure_cases(THREADS, THREADS, LOOP, round=2), loads


def test_all_servers_are_up_before_the_first_window(measured: tuple[list[Record], Loads]) -> None:
    _, loads = measured
    assert [(len(neighbours), alive) for _, neighbours, alive in loads.seen] == [(2, True)] * 6
    assert len({url for url, _, _ in loads.seen}) == 3


def test_windows_follow_an_order_and_its_reverse(measured: tuple[list[Record], Loads]) -> None:
    records, loads = measured
    urls = [url for url, _, _ in loads.seen]
    assert urls == urls[::-1]
    by_order = sorted(records, key=lambda record: record.trial.order or 0)
    assert [record.load.url for record in by_order] == urls
    assert [record.trial.order for record in by_order] == [1, 2, 3, 4, 5, 6]


def test_the_order_changes_from_round_to_round_and_is_that_of_the_seed() -> None:
    members: Any = dict.fromkeys(range(4))
    trials = [Trial("run", "", seed=7, block=0, round=n) for n in range(1, 21)]
    orders = [tuple(_order(members, trial, False)) for trial in trials]
    assert all(order == order[::-1] and sorted(order[:4]) == [0, 1, 2, 3] for order in orders)
    assert len({*orders}) > 5
    single = [tuple(_order(members, trial, True)) for trial in trials]
    assert single == [order[:4] for order in orders]
    assert all(after == one[::-1] for one, after in zip(single[::2], single[1::2], strict=True))


def test_cases_have_two_windows_or_one(measured: tuple[list[Record], Loads]) -> None:
    assert WindowDesign().has_one is False
    assert [record.trial.case_index for record in measured[0]] == [0, 0, 1, 1, 2, 2]
    found = measure_cases(THREADS, LOOP, design=WindowDesign(has_one=True), round=2)
    assert [record.trial.case_index for record in found] == [0, 1]


def test_a_case_against_itself_is_kept_apart_by_its_place(
    measured: tuple[list[Record], Loads],
) -> None:
    records, _ = measured
    assert [record.trial.case_index for record in records] == [0, 0, 1, 1, 2, 2]
    assert records[0].key == records[2].key != records[4].key
    urls = [
        {r.load.url for r in records if r.trial.case_index == case_index} for case_index in range(3)
    ]
    assert all(len(each) == 1 for each in urls)
    assert len(set.union(*urls)) == 3


def test_a_window_with_neighbours_is_complete_except_for_its_memory(
    measured: tuple[list[Record], Loads],
) -> None:
    for record in measured[0]:
        assert (record.problem, record.result.rate_how) == (None, "residence-spread")
        assert (record.result.completed or 0) >= 5
        assert record.resources.memory.pss_mib is record.resources.memory.rss_mib is None
        host = record.resources.host
        assert 0 < (host.python_s or 0) < 3
        assert 0 < (host.memory_s or 0) < 3
        assert set(record.trial.phases) == {"start", "baseline", "load", "stop"}
        assert (record.server.life_cpu_s or 0) > 0


def test_a_case_alone_has_one_window_with_its_memory() -> None:
    record = measure_window(THREADS, round=2)
    assert (record.trial.order, record.trial.case_index) == (1, 0)
    memory = record.resources.memory
    assert 0 < (memory.uss_mib or 0) <= (memory.pss_mib or 0) < (memory.rss_mib or 0)
    assert (record.result.completed or 0) >= 20


@pytest.mark.parametrize("name", one_of_each_kind(OWN))
def test_each_server_fills_the_record_of_a_window(name: str) -> None:
    record = measure_window(case_of(name, "sleep_short_sync", users=2), at_least_s=0.5, round=2)
    names = ("rate", "response_p99_s", "memory_pss_mib", "memory_rss_mib")
    assert [field for field in names if not value_of(record, field)] == []
    assert value_of(record, "server_cpu_s") is not None  # 0 is possible: the kernel counts 10 ms
    assert record.problem is None
    assert (record.result.completed or 0) >= 20
    assert record.result.response.p50_s <= record.result.response.p99_s  # type: ignore[operator]


FAILING = {
    "os.kill(os.getpid(), 9)\ndef work(): ...\n": "ended before it was ready",
    "os._exit(7)\ndef work(): ...\n": r"called os\._exit\(7\)",
    "import no_such_module\ndef work(): ...\n": "no_such_module",
    "def work():\n    raise ValueError('no')\n": "answered 500: .*ValueError: no",
    "def work():\n    os._exit(3)\n": "did not answer",
}


def test_servers_that_fail_leave_the_others_to_be_measured(tmp_path: Path, mark: Alive) -> None:
    names = [f"task_{number}" for number in range(len(FAILING))]
    tasks = [own_task(tmp_path, body, name) for body, name in zip(FAILING, names, strict=True)]
    bad = [Case("threads", task, users=2) for task in tasks]
    records = measure_cases(*bad, LOOP, THREADS, round=2)
    for case_index, reason in enumerate(FAILING.values()):
        assert re.search(reason, str(records[case_index].problem))
        assert records[case_index].is_unavailable
        assert (records[case_index].trial.case_index, records[case_index].result.rate) == (
            case_index,
            None,
        )
    others = records[len(FAILING) :]
    assert [record.trial.case_index for record in others] == [5, 5, 6, 6]
    assert [record.problem for record in others] == [None] * 4
    assert all((record.result.rate or 0) > 0 for record in others)
    assert wait_until(lambda: not mark()), mark()


def test_a_server_that_failed_is_stopped_before_the_first_window(
    tmp_path: Path, mark: Alive, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Case("threads", own_task(tmp_path, "def work():\n    raise ValueError('no')\n"))
    loads = Loads(monkeypatch)
    alive: list[int] = []
    load_phase_run = load_phase.run

    def counted(*words: Any) -> Any:
        alive.append(len([p for p in mark() if "offload.servers" in p.cmdline()]))
        return load_phase_run(*words)

    monkeypatch.setattr(load_phase, "run", counted)
    measure_cases(bad, LOOP, round=2)
    assert alive == [1]
    assert [neighbours for _, neighbours, _ in loads.seen] == [[]]


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_of_a_round_has_a_problem_and_the_others_go_on(
    tmp_path: Path, mark: Alive
) -> None:
    body = (
        f"import time\ndef work():\n    if os.path.exists({str(tmp_path / 'die')!r}):\n"
        "        os._exit(3)\n    time.sleep(0.01)\n"  # leaves the CPU idle
    )
    dying = Case("loop", own_task(tmp_path, body), users=2)
    loads = 0

    def report(phase: str, *_: object) -> None:
        nonlocal loads
        loads += phase == "load"
        if loads == 2:
            (tmp_path / "die").touch()

    made = Trial("run", "", kind="window", block=0, round=2, seed=1)
    records = measure_round({0: dying, 1: THREADS}, made, None, report, with_gil=False)
    by_place = [[r for r in records if r.trial.case_index == case_index] for case_index in (0, 1)]
    assert by_place[0][-1].problem is not None
    assert by_place[0][-1].problem.kind == LOAD
    assert [r.problem for r in by_place[1]] == [None, None]
    assert wait_until(lambda: not mark()), mark()


@pytest.mark.slow
@pytest.mark.parametrize("has_one", [True, False])
def test_calls_that_a_load_left_behind_take_no_cpu_from_the_next_window(
    tmp_path: Path, has_one: bool
) -> None:
    body = "import time\ndef work():\n    end = time.thread_time() + 0.1\n"
    body += "    while time.thread_time() < end: pass\n"
    settings = {"processes": 2, "workers": 16}
    slow = Case("threads", own_task(tmp_path, body), users=64, settings=settings)
    records = measure_cases(slow, THREADS, design=WindowDesign(has_one))
    assert [record.problem for record in records] == [None] * len(records)
    assert records[0].trial.order == 1  # the slow one is first
    own = next(record for record in records if record.trial.case_index == 1)
    busy = (own.resources.host.own_cpu_s or 0.0) / (own.result.elapsed_s or 1.0)
    assert busy < 0.5  # of a core; without the wait more than one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("os._exit(3)", "the server ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", "the server was ended by signal 9 (Killed)"),
    ],
)
def test_what_a_server_completed_before_it_died_is_not_a_rate(
    tmp_path: Path, end: str, expected: str
) -> None:
    """The load ends with its window, so too few requests fail for the load to fail."""
    body = (
        "import time, itertools\nnumbers = itertools.count(1)\n"
        f"def work():\n    time.sleep(0.01)\n    if next(numbers) == 60:\n        {end}\n"
    )
    dying = Case("loop", own_task(tmp_path, body), users=2)
    records = measure_cases(dying, THREADS, design=WindowDesign(True, beside_s=1.5))
    died, other = (record.problem for record in records)
    assert died is not None and died.message.startswith(f"{expected} under 2 users, after ")
    assert other is None
    assert records[0].result.completed
    assert average_by_round(records[:1], rate_of) == {}


@pytest.mark.parametrize(
    ("phase", "error"),
    [("baseline", KeyboardInterrupt), ("load", KeyboardInterrupt), ("load", RuntimeError)],
)
def test_an_interrupted_round_leaves_no_process(
    phase: str, error: type[BaseException], mark: Alive
) -> None:
    def report(name: str, *_: object) -> None:
        if name == phase:
            assert len(mark()) >= 2
            raise error

    made = Trial("run", "", kind="window", block=0, round=2, seed=1)
    with pytest.raises(error):
        measure_round({0: THREADS, 1: LOOP}, made, None, report, with_gil=False)
    assert wait_until(lambda: not mark(), 3), mark()


def test_cpu_use_of_neighbours_is_not_that_of_others(tmp_path: Path) -> None:
    burning = "import threading\ndef burn():\n    while True: pass\n"
    start = "threading.Thread(target=burn, daemon=True).start()\ndef work(): ...\n"
    running = server.start(Case("threads", own_task(tmp_path, burning + start)), {})
    try:
        neighbour = psutil.Process(running.process.pid)
        with ResourceSampler(os.getpid(), [neighbour.pid]) as watch:
            before = neighbour.cpu_times().user
            assert wait_until(lambda: neighbour.cpu_times().user - before > 0.2)
        own_s = watch.between(None, None).host.own_cpu_s
    finally:
        server.stop(running)
    assert own_s is not None
    assert own_s >= 0.2


@pytest.mark.slow
def test_more_users_than_the_listen_queue_holds_are_measured_without_waiting() -> None:
    crowded = Case("loop", "sleep_short_sync", users=12, settings={"backlog": 4})
    record = measure_window(crowded, round=2)
    assert record.server.settings["backlog"] == 4
    assert record.problem is None
    assert (record.result.rate or 0) > 0


@pytest.mark.slow
def test_an_upstream_that_ended_is_a_problem_of_those_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Alive
) -> None:
    monkeypatch.setenv("UPSTREAM_FOLDER", str(tmp_path))
    network = Case("threads", "network_sync_local", users=2)
    made = Trial("run", "", kind="window", block=0, round=2, seed=1)
    killed: list[str] = []

    with upstream.hold() as held:

        def report(phase: str, *_: object) -> None:
            if phase == "load" and not killed:
                os.kill(held.upstream.pid, signal.SIGKILL)
                assert wait_until(lambda: upstream.find(held.upstream.https) is None)
                killed.append(phase)

        cases = {0: network, 1: LOOP}
        records = measure_round(cases, made, held.upstream, report, with_gil=False)
        gone = measure_round(cases, made, held.upstream, lambda *_: None, with_gil=False)
    assert [r.problem is None for r in records] == [False, False, True, True]
    assert (gone[0].is_unavailable, gone[0].trial.case_index) == (True, 0)
    assert [r.problem for r in gone[1:]] == [None]
    assert wait_until(lambda: not mark()), mark()


def test_without_an_upstream_only_those_that_need_it_are_unavailable() -> None:
    error = StartError("the upstream does not start", "free its port")
    found = measure_cases(Case("threads", "network_sync_local"), LOOP, upstream=error, round=2)
    assert [str(r.problem) for r in found] == [
        "not available: the upstream does not start: free its port",
        "None",
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_same_server_on_two_pythons_is_two_cases() -> None:
    if (other := newest_other_python()) is None:
        pytest.skip("no other Python here")
    pair = [Case("threads", "noop_sync", users=2, python=name) for name in (None, other.name)]
    records = measure_cases(*pair, round=2)
    assert [r.problem for r in records] == [None] * 4
    versions = {str(r.server.interpreter["python"]) for r in records}
    assert len(versions) == len({r.key for r in records}) == 2
