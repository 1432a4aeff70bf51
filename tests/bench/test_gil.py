"""A visit that asks for the GIL tells what one task holds, and what tasks wait for together."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench import draft, gil, gil_word, load_test, server, single_flight
from bench.prime import get
from bench.record import VISIT, Record
from bench.visit import visit
from loads import Load
from reports import gil_follows
from suites import Case
from tests.bench.test_gil_meter import believed

TASKS = Path(__file__).parent / "holding.py"
pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 4, reason="a meter that shares its core with what it looks at"
)
WITHIN = 0.03 if os.environ.get("STRICT") else 0.1  # STRICT=1 is for a quiet machine
Start = Callable[..., server.Server]


def visited(name: str, task: str, users: int) -> Record:
    case = Case(name, f"{TASKS}:{task}", users=users)
    record = replace(draft.new(case, "run", None), kind=VISIT)
    record = visit(case, "builtin", record, None, lambda *_: None, gil=True)
    if None in (record.gil_hold, record.gil_utilisation):
        pytest.skip(record.gil_why or "the meter does not say why it read nothing")
    return record


@pytest.mark.parametrize("name", ["sync", "loop", "threads", "processes"])
@pytest.mark.parametrize("task", ["half_of_1_ms", "tenth_of_20_ms", "most_of_300_ms"])
def test_the_hold_of_a_task_alone_is_known(name: str, task: str, start: Start) -> None:
    pool = {"workers": 1} if name in ("threads", "processes") else {}
    running = start(name, f"{TASKS}:{task}", **pool)
    held, total = map(float, get(running.url).split())
    found = single_flight.fly(
        Load(running.url, 1, seconds=None), running.facts, float(task.split("_")[2]) / 1000
    )
    held_then, total_then = map(float, get(running.url).split())
    truth = (held_then - held) / (total_then - total)
    assert believed(found.hold) == pytest.approx(truth, abs=WITHIN + (found.hold.late or 0))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one CPU they queue for that")
def test_threads_that_compute_wait_for_each_other() -> None:
    record = visited("threads", "computes", users=16)
    found = gil.of(record)
    assert found.hold > 0.9 < found.utilisation  # type: ignore[operator]
    queued = record.task_queued_s / record.task_s  # type: ignore[operator] # on a busy machine
    assert 0.3 < found.wait_share + queued < 0.9  # type: ignore[operator] # 0.75 at most: N = 4
    assert 0.5 < found.inflation < 2  # type: ignore[operator]
    assert found.switches > 1  # type: ignore[operator]


def test_a_hold_in_c_is_longer_than_python_code_may_hold() -> None:
    python = visited("threads", "computes", users=8).gil_hold_p75_s
    in_c = visited("threads", "computes_in_one_call", users=8).gil_hold_p75_s
    assert python < in_c  # type: ignore[operator]
    assert in_c > gil_follows.LONG_S  # type: ignore[operator]


def test_processes_that_compute_wait_for_no_gil() -> None:
    record = visited("processes", "computes", users=4)
    assert gil.of(record).wait_share < 0.15  # type: ignore[operator]
    assert record.gil_utilisation > 0.5  # type: ignore[operator]


def test_a_visit_that_does_not_ask_knows_no_hold_but_the_utilisation() -> None:
    case = Case("threads", "noop_sync", users=2)
    record = replace(draft.new(case, "run", None), kind=VISIT)
    record = visit(case, "builtin", record, None, lambda *_: None)
    assert (record.gil_hold, record.task_queued_s, "alone" in record.phases) == (None, None, False)
    if record.gil_utilisation is None:
        pytest.skip(record.gil_why or "the meter does not say why it read nothing")
    assert (0 < record.gil_utilisation <= 1, record.gil_why) == (True, None)


def test_tasks_that_run_together_on_a_loop_have_no_hold_of_their_own(start: Start) -> None:
    running = start("loop", "sleep_async_split")
    asking = threading.Thread(target=lambda: [get(running.url) for _ in range(8)])
    asking.start()
    found = single_flight.fly(Load(running.url, 1, seconds=None), running.facts, 0.28)
    asking.join()
    assert (found.hold.share, found.hold.why) == (None, single_flight.NOT_ALONE)


def test_a_foreign_server_has_no_gil_to_look_at() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{foreign.server_port}/"
        record = load_test.of_url(Load(url, 1, seconds=0.1), "builtin")
        foreign.shutdown()
    assert (record.gil_utilisation, record.gil_why) == (None, gil_word.SILENT)
