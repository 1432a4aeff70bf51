"""The sampler measures from outside for what share of the time a real GIL is held.

Tests of its precision need two cores, one for the sampler and one for the holder, and run alone.
The computation of its figures is tested in test_gil_sampler.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offload.engine import gil_sampler, server
from offload.engine.gil_sampler import GilSampler, Utilisation
from offload.engine.server import find_interpreter, user_paths
from offload.engine.workload import get
from offload.errors import UsageError
from tests import ROOT
from tests.waiting import read_line, wait_until

TASKS = Path(__file__).parent / "gil_tasks.py"
OTHERS = sorted({"3.14", "3.13t", *user_paths()})  # interpreters that may be here
FORK = multiprocessing.get_context("fork")
WITHIN = 0.03 if os.environ.get("STRICT") else 0.1  # STRICT=1 is for a quiet machine
TRIES = 3  # for a machine that is busy for a moment
Start = Callable[..., server.Server]
pytestmark = pytest.mark.server
two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="on one core the sampler waits for its target"
)


def sample_holder(
    python: str, share: float, how: str, seconds: float
) -> tuple[Utilisation, dict[str, Any]]:
    """Sample a process that holds its GIL for a share of its time; return both measurements."""
    words = [python, "-m", "tests.bench.telemetry.gil_holder", str(share), str(seconds), how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # other Pythons lack the package
    holder = subprocess.Popen(words, cwd=ROOT, text=True, env=environment, **pipes)  # type: ignore[call-overload]
    try:
        with GilSampler(json.loads(read_line(holder.stdout))) as sampler:
            print(file=holder.stdin, flush=True)
            truth = json.loads(read_line(holder.stdout))
    finally:
        holder.kill()
        holder.communicate(timeout=20)
    return sampler.between(truth["began"], truth["ended"]), truth


def assert_is_read(python: str, share: float, how: str, seconds: float) -> None:
    """Compare the sampled share with the true one; skip if no core is free for the sampler."""
    for _ in range(TRIES):
        read, truth = sample_holder(python, share, how, seconds)
        print(f"held {truth['share']:.3f}, read {read.share}")  # pytest -s shows it
        if read.why is None or not read.why.endswith(gil_sampler.TOO_LATE):
            break
    else:
        pytest.skip(f"{read.why}, {TRIES} times: make test-all on a quieter machine")
    assert read.share is not None, read.why
    expected = truth["share"] if truth["gil"] else 0.0
    assert read.share == pytest.approx(expected, abs=WITHIN + (read.late or 0))
    assert not truth["gil"] or read.low < read.share < read.high  # type: ignore[operator]


@two_cores
@pytest.mark.timing
@pytest.mark.parametrize(("share", "how"), [(0.1, "hash"), (0.5, "sleep")])
def test_a_known_hold_is_read(share: float, how: str) -> None:
    assert_is_read(sys.executable, share, how, seconds=0.8)


@two_cores
@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("name", ["own", *OTHERS])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("how", ["sleep", "hash"])
def test_a_known_hold_is_read_in_every_python(share: float, how: str, name: str) -> None:
    try:
        path = sys.executable if name == "own" else find_interpreter(name)
    except UsageError as error:
        pytest.skip(f"{error}, then make test-all")
    assert_is_read(path, share, how, seconds=2.0)


@pytest.mark.usefixtures("accept_late_samples")  # each of the three GILs stays as it is
def test_one_of_three_workers_that_computes_holds_a_third_of_their_gils(start: Start) -> None:
    running = start("processes", f"{TASKS}:all_of_300_ms", workers=3)
    assert len(gil_sampler.gil_addresses(running.facts)) == 3
    with GilSampler(running.facts) as sampler:
        window = tuple(map(float, get(running.url).split()))
    assert sampler.between(*window).share == pytest.approx(1 / 3, abs=0.15)
    assert sampler.during([window]).share == pytest.approx(1, abs=0.15)


@pytest.mark.usefixtures("accept_late_samples")
def test_an_idle_server_holds_no_gil(start: Start) -> None:
    facts = start("sync", "noop_sync").facts
    found: list[float | None] = []
    for _ in range(5):  # a busy machine may leave it with its GIL for a while, but not always
        with GilSampler(facts) as sampler:
            time.sleep(0.3)
        read = sampler.between(None, None)
        assert 10 < read.samples <= 1000
        found.append(read.share)
        if found[-1] is not None and found[-1] < 0.05:  # it polls for its end twenty times a second
            return
    pytest.fail(f"an idle server held its GIL for {found} of the time")


@pytest.mark.timing
def test_sampling_uses_little_of_a_core(start: Start) -> None:
    with GilSampler(start("processes", "noop_sync").facts) as sampler:
        time.sleep(0.5)
    assert 0 < sampler.cpu_s < 0.5 * 0.15


@pytest.mark.usefixtures("accept_late_samples")
def test_a_server_that_dies_has_no_utilisation_from_then_on(start: Start) -> None:
    running = start("sync", "noop_sync")
    with GilSampler(running.facts) as sampler:
        began = time.monotonic()
        assert wait_until(lambda: sampler.between(began, time.monotonic()).samples > 10)
        before = time.monotonic()
        assert wait_until(lambda: sampler.between(before, time.monotonic()).samples)
        running.process.kill()
        running.process.wait(20)
        assert wait_until(lambda: not sampler.is_running)
    assert sampler.between(began, before).share == pytest.approx(0, abs=0.5)
    assert sampler.between(began, time.monotonic()).why == "a process of the server has ended"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_refusal_of_the_kernel_is_reported_with_its_reason(start: Start) -> None:
    facts = start("sync", "noop_sync").facts
    here, there = FORK.Pipe()

    def ask_as_nobody() -> None:
        os.setuid(65534)
        with GilSampler(facts) as sampler:
            pass
        there.send(sampler.between(0, 1).why)

    asking = FORK.Process(target=ask_as_nobody, daemon=True)
    asking.start()
    assert here.poll(20)
    assert here.recv() == gil_sampler.REASONS[1]
    asking.join(20)
