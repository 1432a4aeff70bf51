"""The first round measures the GIL hold of a single task, and the GIL waits of many."""

from __future__ import annotations

import http.server
import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offload.engine import gil_sampler, load_phase, running_servers, server
from offload.engine.record import Record
from offload.engine.workload import get
from offload.loads import Load
from offload.studies.gil import advice, figures
from offload.suites import Case
from tests.bench.telemetry.test_real_gils import TRIES, two_cores
from tests.rounds import measure_window

TASKS = Path(__file__).parents[1] / "telemetry" / "gil_tasks.py"
WITHIN = 0.03 if os.environ.get("STRICT") else 0.1  # STRICT=1 is for a quiet machine
HOLDS = ("half_of_1_ms", "tenth_of_20_ms", "most_of_300_ms")
Start = Callable[..., server.Server]
pytestmark = pytest.mark.server
# A GIL that is held all the time is locked in every sample, however late the sample is.
accept_late_samples = pytest.mark.usefixtures("accept_late_samples")


def measured_record(
    name: str, task: str, users: int, with_sampler: bool = True, **settings: int
) -> Record:
    case = Case(name, f"{TASKS}:{task}", users=users, settings=settings)
    record = measure_window(case, with_gil=with_sampler, at_least_s=0.5)
    assert record.problem is None
    return record


def assert_hold_is_known(name: str, task: str, start: Start) -> None:
    """Compare the hold of a task with what it counted; skip if no core is free for the sampler."""
    pool = {"workers": 1} if name in ("threads", "processes") else {}
    running = start(name, f"{TASKS}:{task}", **pool)
    for _ in range(TRIES):
        held, total = map(float, get(running.url).split())
        found = load_phase.run_single_requests(
            Load(running.url, 1, seconds=None), running.facts, float(task.split("_")[2]) / 1000
        )
        held_then, total_then = map(float, get(running.url).split())
        if not str(found.hold.why).endswith(gil_sampler.TOO_LATE):
            break
    else:
        pytest.skip(f"{found.hold.why}, {TRIES} times: make test-all on a quieter machine")
    assert found.hold.share is not None, found.hold.why
    truth = (held_then - held) / (total_then - total)
    assert found.hold.share == pytest.approx(truth, abs=WITHIN + (found.hold.late or 0))


@two_cores
@pytest.mark.timing
@pytest.mark.parametrize(
    ("name", "task"),
    [pytest.param("sync", HOLDS[0], marks=pytest.mark.slow), ("processes", HOLDS[1])],
)
def test_the_hold_of_a_task_alone_is_known(name: str, task: str, start: Start) -> None:
    assert_hold_is_known(name, task, start)


@two_cores
@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sync", "loop", "threads", "processes"])
@pytest.mark.parametrize("task", HOLDS)
def test_the_hold_of_each_task_alone_is_known_on_every_server(
    name: str, task: str, start: Start
) -> None:
    assert_hold_is_known(name, task, start)


@pytest.fixture(scope="module")
def computing() -> Record:
    """Return the record of a load in which threads compute in Python all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gil_sampler, "LATE", math.inf)
        return measured_record("threads", "computes", users=16)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one CPU they queue for that")
@pytest.mark.timing
def test_threads_that_compute_wait_for_each_other(computing: Record) -> None:
    found = figures.gil_figures(computing)
    assert found.hold > 0.9  # type: ignore[operator]
    assert found.utilisation > 0.5  # type: ignore[operator] # 1 where they have the CPU to themselves
    queued = computing.tasks.queued_s / computing.tasks.wall_s  # type: ignore[operator] # on a busy machine
    assert found.wait_share + queued > 0.3  # type: ignore[operator]
    assert found.wait_share / (1 - queued) < 0.9  # type: ignore[operator] # 0.75 at most: N = 4
    assert 0.5 < found.inflation < 2  # type: ignore[operator]
    assert found.switches > 1  # type: ignore[operator]


@pytest.mark.timing
@accept_late_samples
def test_a_hold_in_c_is_longer_than_python_code_may_hold(computing: Record) -> None:
    in_c = measured_record("threads", "computes_in_one_call", users=8).gil.hold_p75_s
    assert computing.gil.hold_p75_s < in_c  # type: ignore[operator]
    assert in_c > advice.LONG_HOLD_S  # type: ignore[operator]


@accept_late_samples
@pytest.mark.slow
@pytest.mark.timing
def test_processes_that_compute_wait_for_no_gil() -> None:
    record = measured_record("processes", "computes", users=2, workers=2)
    assert figures.gil_figures(record).wait_share < 0.15  # type: ignore[operator]
    assert record.gil.utilisation.value > 0.5  # type: ignore[operator]


@accept_late_samples
def test_a_round_without_the_gil_meter_has_a_utilisation_and_no_hold() -> None:
    record = measured_record("threads", "half_of_1_ms", users=2, with_sampler=False)
    assert (record.gil.hold.value, record.tasks.queued_s, "alone" in record.trial.phases) == (
        None,
        None,
        False,
    )
    assert (0 < (record.gil.utilisation.value or 0) <= 1, record.gil.why) == (True, None)


@pytest.fixture
def server_with_another_client(start: Start) -> Iterator[server.Server]:
    """Start a server that another client keeps loading."""
    running, ended = start("loop", "sleep_async_split"), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            get(running.url)

    asking = threading.Thread(target=ask)
    asking.start()
    yield running
    ended.set()
    asking.join(20)


def test_tasks_that_run_together_on_a_loop_have_no_hold_of_their_own(
    server_with_another_client: server.Server,
) -> None:
    load = Load(server_with_another_client.url, 1, seconds=None)
    found = load_phase.run_single_requests(load, server_with_another_client.facts, 0.28)
    assert (found.hold.share, found.hold.why) == (None, load_phase.NOT_ALONE)


def test_the_gil_of_a_server_with_external_workers_is_unknown() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as foreign:
        threading.Thread(target=foreign.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{foreign.server_port}/"
        record = running_servers.load_url(Load(url, 1, seconds=0.1), "builtin")
        foreign.shutdown()
    assert (record.gil.utilisation.value, record.gil.why) == (None, gil_sampler.NOT_REPORTED)
