"""Each trap has the property that it is named after."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.corpus import generated, traps
from offload.suites import Case
from tests import ROOT
from tests.rounds import measure_window


def in_threads(function: Callable[[], object], count: int) -> list[object]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda _: function(), range(count), timeout=50))


def test_a_sum_is_wrong_in_threads_only() -> None:
    assert len({traps.unsafe_in_threads() for _ in range(5)}) == 1
    assert len(set(in_threads(traps.unsafe_in_threads, 40))) > 1


def test_one_of_fifty_calls_fails() -> None:
    failed = 0
    for _ in range(2 * traps.FAILS_EACH):
        try:
            traps.fails_sometimes()
        except RuntimeError:
            failed += 1
    assert failed == 2


def test_a_signal_is_refused_in_a_thread() -> None:
    with pytest.raises(ValueError, match="main thread"):
        in_threads(traps.main_thread_only, 1)


async def _within_a_loop() -> str:
    return traps.runs_its_own_loop()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_loop_of_its_own_fails_on_a_loop() -> None:
    with pytest.raises(RuntimeError, match="running event loop"):
        asyncio.run(_within_a_loop())
    gc.collect()  # the coroutine, here and not in another test


def test_a_leak_grows_and_threads_are_started() -> None:
    before = len(traps._leaked)
    traps.leaks()
    assert len(traps._leaked) == before + 1
    traps.threads_of_the_process()
    started = sum("ThreadPool" in thread.name for thread in threading.enumerate())
    assert 0 < started <= traps.PARTS  # an idle thread takes the next part
    traps._threads().shutdown()
    traps._threads.cache_clear()


def test_lines_are_printed() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        traps.prints()
    assert printed.getvalue().count("\n") == traps.LINES


def test_variable_factors_have_the_mean_1_and_one_in_ten_is_slow() -> None:
    assert sum(generated._lognormal()) / generated.DRAWS == pytest.approx(1)
    assert max(generated._lognormal()) > 5
    assert sorted(generated._slow_tenth())[-51:] == [1.0] + [10.0] * 50


def test_processes_begin_at_different_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    def order(pid: int) -> list[float]:
        monkeypatch.setattr(generated.os, "getpid", lambda: pid)
        return [generated._factor(generated._lognormal()) for _ in range(20)]

    assert order(1000) != order(1001)


def test_locks_exclude_threads_and_the_file_lock_too() -> None:
    busy = {"now": 0, "most": 0}

    def enter() -> None:
        with generated._file_lock():
            busy["now"] += 1
            busy["most"] = max(busy["most"], busy["now"])
            generated.wait_5()
            busy["now"] -= 1

    in_threads(enter, 8)
    assert busy["most"] == 1


@pytest.mark.server
def test_a_function_that_is_wrong_in_threads_is_measured_as_wrong() -> None:
    case = Case("threads", "lab.corpus.traps:unsafe_in_threads", 8, 0.5, path=str(ROOT))
    record = measure_window(case)
    assert record.baseline.is_stable
    assert record.result.failures
