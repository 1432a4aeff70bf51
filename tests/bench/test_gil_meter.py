"""The meter reads from outside what share of the time the GIL is held, or says why not."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import catalog
from bench import gil_meter, gil_word, pythons, server
from bench.gil_meter import Meter, Utilisation
from tests.waiting import wait_until

PYTHONS = {"own": sys.executable, **pythons.named()}
FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 4, reason="a meter that shares its core with what it looks at"
)
WITHIN = 0.03 if os.environ.get("STRICT") else 0.1
Start = Callable[..., server.Server]


def believed(read: Utilisation) -> float:
    """Give the share that was read; a machine too busy to look is no fault of the meter's."""
    if read.why is not None and read.why.endswith(gil_meter.TOO_LATE):
        pytest.skip(read.why)
    assert read.share is not None, read.why
    return read.share


def metered(python: str, share: float, how: str = "sleep") -> tuple[Utilisation, dict[str, Any]]:
    """Look at a process that holds its GIL for a share of 2 s: what was read, what it says."""
    words = [python, "-m", "tests.bench.holder", str(share), "2", how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        subprocess.Popen(words, cwd=catalog.ROOT, text=True, **pipes) as holder,  # type: ignore[call-overload]
        Meter(json.loads(holder.stdout.readline())) as meter,
    ):
        print(file=holder.stdin, flush=True)
        truth = json.loads(holder.stdout.readline())
    return meter.between(truth["began"], truth["ended"]), truth


@pytest.mark.parametrize("name", PYTHONS)
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("how", ["sleep", "hash"])
def test_a_known_hold_is_read_in_every_python(share: float, how: str, name: str) -> None:
    read, truth = metered(PYTHONS[name], share, how)
    print(f"{name}: held {truth['share']:.3f}, read {read.share}")  # pytest -s shows it
    expected = truth["share"] if truth["gil"] else 0.0
    assert believed(read) == pytest.approx(expected, abs=WITHIN + (read.late or 0))
    assert not truth["gil"] or read.low < read.share < read.high  # type: ignore[operator]


def test_an_idle_server_holds_no_gil_and_a_window_is_its_own(start: Start) -> None:
    with Meter(start("sync", "noop_sync").facts) as meter:
        began = time.monotonic()
        time.sleep(0.3)
        ended = time.monotonic()
    read = meter.between(began, ended)
    assert believed(read) < 0.05  # it polls for its end twenty times a second
    assert 10 < read.samples <= 301
    assert meter.between(began - 9, began - 8) == Utilisation(why=gil_meter.NO_SAMPLE)


def test_of_several_workers_it_is_the_mean(start: Start) -> None:
    facts = start("processes", "noop_sync", workers=3).facts
    with Meter(facts) as meter:
        time.sleep(0.1)
    assert len(gil_word.told(facts)) == 3
    assert meter.between(0, time.monotonic()).share == 0.0


def test_looking_takes_little_of_a_core(start: Start) -> None:
    with Meter(start("processes", "noop_sync").facts) as meter:
        time.sleep(0.5)
    assert 0 < meter.cpu_s < 0.5 * 0.15


def test_a_server_that_dies_has_no_utilisation_from_then_on(start: Start) -> None:
    running = start("sync", "noop_sync")
    with Meter(running.facts) as meter:
        began = time.monotonic()
        time.sleep(0.1)
        running.process.kill()
        running.process.wait()
        assert wait_until(lambda: not meter.is_looking, 3)
    assert meter.between(began, began + 0.05).share == 0.0
    assert meter.between(began, time.monotonic()).why == "a process of the server is gone"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, gil_word.SILENT),
        ({"gil_word": None, "gil_word_why": "no Linux but darwin"}, "no Linux but darwin"),
        ({"gil_word": {"pid": os.getpid(), "address": 8}}, gil_word.REASONS[14]),
        ({"gil_word": {"pid": 0x3FFFFFFF, "address": 8}}, gil_word.REASONS[3]),
        ({"worker_gil_words": [{"gil_word": None, "gil_word_why": "so"}]}, "so"),
    ],
)
def test_what_cannot_be_read_says_why(facts: dict[str, Any], why: str) -> None:
    with Meter(facts) as meter:
        pass
    assert meter.between(0, 1) == meter.during([]) == Utilisation(why=why)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_what_the_kernel_refuses_says_why(start: Start) -> None:
    facts = start("sync", "noop_sync").facts
    here, there = FORK.Pipe()

    def ask_as_nobody() -> None:
        os.setuid(65534)
        with Meter(facts) as meter:
            pass
        there.send(meter.between(0, 1).why)

    FORK.Process(target=ask_as_nobody, daemon=True).start()
    assert here.poll(5)
    assert here.recv() == gil_word.REASONS[1]


def test_a_word_that_is_none_is_not_believed() -> None:
    text = b"\x05" * 64
    facts = {"gil_word": {"pid": os.getpid(), "address": id(text) + 40}}
    with Meter(facts) as meter:
        pass
    assert "layout not recognised" in str(meter.between(0, 1).why)


@pytest.mark.parametrize("every_s", [0.001, 0.05])
def test_looks_that_come_late_are_not_believed(
    every_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep, began = time.sleep, time.monotonic()

    def stalls(seconds: float) -> None:
        is_stall = (time.monotonic() - began) % (2 * every_s) < every_s
        sleep(seconds + every_s if is_stall else seconds)

    monkeypatch.setattr(gil_meter.time, "sleep", stalls)
    read, _ = metered(sys.executable, 0.5)
    assert str(read.why).endswith(gil_meter.TOO_LATE)
