"""Functions that use several cores in each call are recognised, predicted and explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offload import cores
from offload.bench.advice.inputs import probe_measurement, probe_points
from offload.bench.advice.inputs.call_cost import PARALLEL, CallCost
from offload.bench.advice.inputs.overhead import MEASURING_CORES
from offload.bench.advice.inputs.probe import ALONE, FIRST
from offload.bench.advice.prediction import limits
from offload.bench.target import calling_process
from offload.reports.advice import answer_text, changes
from tests.bench.advice.answers import answered
from tests.bench.advice.probes import model, on_several_cores, probe

FREE = 2 - MEASURING_CORES  # cores
CALL_S, CPU_S = 0.00268, 0.00524  # of a product of two matrices on two cores
TRIES = 10  # of 0.2 s
HASHES = """
import hashlib
from concurrent.futures import ThreadPoolExecutor
DATA = bytes(8_000_000)
def _hash(_): return hashlib.sha256(DATA).hexdigest()
def in_two_threads():
    with ThreadPoolExecutor(2) as threads: return " ".join(threads.map(_hash, range(2)))
def in_one_thread(): return " ".join(map(_hash, range(2)))
"""
PRODUCT = on_several_cores(CALL_S, CPU_S)


@pytest.mark.slow  # it needs two cores that are idle together for 0.2 s
@pytest.mark.timing
@pytest.mark.skipif(cores.available() < 2, reason="one core")
def test_hashes_in_two_threads_use_two_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hashes.py").write_text(HASHES)
    monkeypatch.chdir(tmp_path)
    one = next(_calls("hashes:in_one_thread"))
    assert (one.parallelism, one.busy_s) == (1.0, one.cpu_s)
    calls = _calls("hashes:in_two_threads")
    found = next(call for call in calls if call.parallelism > PARALLEL)
    assert found.parallelism < 2.5
    assert found.busy_s == pytest.approx(found.wall_s - found.queued_s)
    assert found.wait_s == 0.0


def _calls(task: str) -> Iterator[CallCost]:
    """Yield what a call of a task costs, up to TRIES times: other processes may use the cores."""
    with calling_process.start(
        "offload.serving.task_probe", task, python=None, path=None, environment={}, ready_s=20.0
    ) as child:
        probe_points.request(child, FIRST, 1, 0.0)
        for _ in range(TRIES):
            yield probe_measurement._call_cost(probe_points.request(child, ALONE, 1, 0.2), None)


def test_a_call_that_only_computes_a_little_longer_than_it_lasts_uses_one_core() -> None:
    call = PRODUCT.call
    assert replace(call, cpu_s=1.1 * CALL_S).parallelism == 1.0
    assert call.parallelism == pytest.approx(CPU_S / CALL_S)
    assert call.wait_s == 0.0
    crowded = replace(call, wall_s=3 * CALL_S, queued_s=2 * CALL_S)  # it waited for a core
    assert crowded.parallelism == pytest.approx(CPU_S / CALL_S)


def test_one_call_after_another_lasts_its_wall_time_not_its_cpu_time() -> None:
    found = model(PRODUCT)
    loop = found.predict("loop", 1)
    assert loop.rate == pytest.approx(1 / (CALL_S + 0.0005), rel=0.02)  # and the overhead
    assert found.predict("pipes", 1).rate == pytest.approx(1 / (CALL_S + 0.0009), rel=0.05)
    assert found.probe.on_loop_s == pytest.approx(CALL_S)


def test_calls_on_all_cores_are_limited_by_their_cpu_time_on_all_cores() -> None:
    """No core is left for the overhead of other requests meanwhile."""
    found = model(PRODUCT)
    threads, pipes = found.predict("threads", 2), found.predict("pipes", 2)
    assert (threads.limit, pipes.limit) == (limits.CPU, limits.CPU)
    assert threads.rate == pytest.approx(FREE / (0.0059 + 2 * 0.0009), rel=0.02)
    assert pipes.rate == pytest.approx(FREE / (0.0233 + 2 * 0.0009), rel=0.02)


def test_more_processes_only_compete_for_the_cores() -> None:
    ranking = model(PRODUCT).ranking()
    assert (ranking[0].strategy, {each.workers for each in ranking}) == ("loop", {1})


def test_the_answer_names_the_cores_and_how_to_use_processes() -> None:
    rates = {("loop", 1): 209.0, ("pipes", 2): 115.0, ("prefork", 2): 111.0}
    text = " ".join(answer_text.text(answered(PRODUCT, rates)).split())
    assert "A call alone takes 2.68 ms, in which it uses 5.24 ms of CPU on several cores;" in text
    cause = "the calls compete for the cores that each of them uses."
    assert f"pipes x2 and prefork x2 are slower: {cause}" in text
    assert "for example by OPENBLAS_NUM_THREADS=1" in text
    one_core = answered(probe(0.0, 0.05, hold=1.0), {("prefork", 2): 39.0, ("pipes", 2): 38.0})
    assert not any("OPENBLAS" in sentence for sentence in changes.sentences(one_core))


def test_the_cpu_time_of_a_call_that_is_mostly_queued_is_not_that_of_several_cores() -> None:
    call = replace(PRODUCT.call, wall_s=0.00473, queued_s=0.0043, cpu_s=0.000544)
    assert call.parallelism == 1.0
    assert replace(call, cpu_s=0.006).parallelism > 2  # more than its wall time
