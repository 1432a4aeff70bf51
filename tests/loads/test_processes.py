"""Users divided among processes are one load, and no request of theirs is lost."""

from __future__ import annotations

import multiprocessing
import os
import struct
import sys
from dataclasses import replace

import pytest

from offload import loads
from offload.loads import Load, Window
from offload.loads.engine import processes
from offload.loads.engine.figures import CountedTime, Samples, summary
from offload.loads.engine.processes import SharedState, divide
from tests.commands import python
from tests.loads.conftest import Server

pytestmark = pytest.mark.server
LOAD = Load("", users=5, seconds=None, requests=100, processes=3, keep_alive=True)


def test_the_shares_add_up() -> None:
    parts = divide(LOAD)
    assert [part.users for part in parts] == [2, 2, 1]
    assert [part.requests for part in parts] == [34, 33, 33]
    assert len({part.seed for part in parts}) == 3


def test_all_requests_are_sent_once(server: Server) -> None:
    before, connections = server.requests["/"], server.accepts["/"]
    measured = loads.run(replace(LOAD, url=server.url("/")), "builtin").result
    assert measured.figures.completed == server.requests["/"] - before == 100
    assert sum((measured.figures.response.histogram or {}).values()) == 100
    assert server.accepts["/"] - connections == 5


def test_the_window_is_common_to_all(server: Server) -> None:
    load = replace(
        LOAD, url=server.url("/pool"), users=9, seconds=1.5, requests=None, window=Window(0.1)
    )
    before = len(server.slots_s)
    measured = loads.run(load, "builtin").result
    assert measured.figures.rate == pytest.approx(server.pool_rate(before), rel=0.1)
    assert (measured.figures.failed["unfinished"], measured.figures.window_s) == (
        0,
        pytest.approx(1.5, abs=0.5),
    )


def test_one_that_gives_up_ends_them_all(server: Server) -> None:
    load = replace(LOAD, url=server.url("/reset"), requests=None, seconds=30.0)
    measured = loads.run(load, "builtin").result
    assert "stopped after" in (measured.problem or "")
    assert (measured.figures.failed["reset"] or 0) >= 1000
    assert (measured.figures.elapsed_s or 0) < 25


@pytest.mark.parametrize("dead", range(3))
def test_one_that_dies_is_a_problem_and_ends_them_all(
    server: Server, monkeypatch: pytest.MonkeyPatch, dead: int
) -> None:
    def work(load: Load, whole: Load, state: SharedState, process: int) -> object:
        return sys.exit(1) if process == dead else real(load, whole, state, process)

    real = processes.work
    monkeypatch.setattr(processes, "work", work)
    seen = processes.run_processes(replace(LOAD, url=server.url("/"), requests=9), SharedState(3))
    problems = [f"load process {n + 1} died" if n == dead else None for n in range(3)]
    assert [part.problem for part in seen] == problems


def test_one_that_dies_while_it_sends_its_samples_is_a_problem() -> None:
    reading, writing = multiprocessing.Pipe(duplex=False)
    with reading:
        os.write(writing.fileno(), struct.pack("!i", 1000) + b"half")  # the size, and a part
        writing.close()
        [samples] = processes.LoadProcesses([], [reading], SharedState(1)).samples()
    assert samples.problem == "load process 1 died"


# 12 descriptors are left for the pipes of 30 processes. A load process raises its own limit.
WITHOUT_FILES = """
import os, resource
from offload.loads import Load
from offload.loads.engine import processes
from offload.loads.engine.processes import SharedState
lowest = os.open(os.devnull, os.O_RDONLY)
os.close(lowest)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 12, hard))
load = Load("http://127.0.0.1:1/", users=30, seconds=60.0, processes=30)
processes.run_processes(load, SharedState(30))
"""


def test_a_process_that_cannot_be_started_ends_the_others() -> None:
    done = python(WITHOUT_FILES)
    assert done.returncode == 1
    assert "OSError: [Errno 24] Too many open files" in done.stderr


def test_the_cpu_time_in_the_window_is_that_of_all_processes() -> None:
    parts = [Samples(busy=share) for share in (0.25, 0.75, 0.5)]
    result = summary(LOAD, CountedTime(10.0, 12.0, is_own=True), parts)
    assert (result.driver_busy, result.driver_cpu_s) == (0.75, 3.0)
    parts.append(Samples(problem="load process 4 died"))
    assert summary(LOAD, CountedTime(10.0, 12.0, is_own=True), parts).driver_cpu_s is None


def test_the_cpu_time_of_a_run_is_that_in_its_window(server: Server) -> None:
    load = replace(LOAD, url=server.url("/pool"), users=9, requests=None, seconds=0.3)
    ran = loads.run(load, "builtin")
    assert ran.driver_cpu_s == ran.result.driver_cpu_s is not None
