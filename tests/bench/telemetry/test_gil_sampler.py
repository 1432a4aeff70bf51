"""The figures of the sampler follow from its samples: here of simulated GILs in this process.

The tests need no idle core for the sampler: either the sampled state does not change, so that late
samples are correct, too, or the test sets the clock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from offload.engine import gil_sampler
from offload.engine.gil_sampler import EVERY, GilSampler, Utilisation
from tests.bench.conftest import SimulatedGil
from tests.waiting import wait_until

ALWAYS = (0.0, 1e9)  # a window that has every sample
accept_late_samples = pytest.mark.usefixtures("accept_late_samples")


def wait_for_samples(sampler: GilSampler, count: int) -> float:
    """Wait for `count` more samples; return a time before them."""
    began = time.monotonic()
    assert wait_until(lambda: sampler.between(began, time.monotonic()).samples >= count)
    return began


@accept_late_samples
@pytest.mark.parametrize("held", range(4))
def test_utilisation_of_several_workers_is_their_mean_and_within_tasks_any(held: int) -> None:
    gils = [SimulatedGil(locked=int(place < held)) for place in range(3)]
    with GilSampler({"worker_gil_addresses": [gil.facts for gil in gils]}) as sampler:
        wait_for_samples(sampler, 5)
    assert sampler.between(*ALWAYS).share == pytest.approx(held / 3, abs=1e-4)
    assert sampler.during([ALWAYS]).share == min(held, 1)
    assert sampler.between(*ALWAYS).each == (1.0,) * held + (0.0,) * (3 - held)
    assert sampler.during([ALWAYS]).each == ()


@accept_late_samples
def test_only_the_gils_of_a_pools_workers_are_sampled_not_the_servers() -> None:
    server, worker = SimulatedGil(locked=1), SimulatedGil()
    with GilSampler({**server.facts, "worker_gil_addresses": [worker.facts]}) as sampler:
        wait_for_samples(sampler, 5)
    assert sampler.between(*ALWAYS).share == 0.0


@accept_late_samples
def test_a_window_has_its_own_samples_and_switches() -> None:
    gil = SimulatedGil(locked=1)
    with GilSampler(gil.facts) as sampler:
        began = wait_for_samples(sampler, 10)
        ended = time.monotonic()
        wait_for_samples(sampler, 1)  # so that no earlier sample is still to be read
        gil.change(locked=0, switches=7)
        began_free = wait_for_samples(sampler, 10)
        ended_free = time.monotonic()
    first, second = sampler.between(began, ended), sampler.between(began_free, ended_free)
    assert (first.share, first.switches, second.share, second.switches) == (1.0, 0, 0.0, 0)
    both = sampler.between(began, ended_free)
    assert (0 < (both.share or 0) < 1, both.switches) == (True, 7)
    parts = sampler.during([(began, ended), (began_free, ended_free)])
    assert parts.samples == first.samples + second.samples
    assert parts.share == pytest.approx(first.samples / parts.samples, abs=1e-4)
    assert sampler.between(began - 9, began - 8) == Utilisation(why=gil_sampler.NO_SAMPLE)


class Clock:
    """A clock that only its own sleeps move on, of which some take longer than asked for."""

    def __init__(self, is_late: Callable[[int], bool], by: float) -> None:
        self._is_late, self._by = is_late, by
        self._now, self.sleeps = 1000.0, 0

    def monotonic(self) -> float:
        return self._now

    def thread_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self._now += seconds + self._by * self._is_late(self.sleeps)
        time.sleep(0)  # let the other thread go on


def by_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Utilisation:
    monkeypatch.setattr(gil_sampler, "time", clock)
    gil = SimulatedGil(locked=1)
    with GilSampler(gil.facts) as sampler:
        assert wait_until(lambda: clock.sleeps >= 1000)
    return sampler.between(None, None)


def test_samples_in_time_count(monkeypatch: pytest.MonkeyPatch) -> None:
    read = by_clock(Clock(lambda _: False, 0.0), monkeypatch)
    assert (read.share, read.late, read.why) == (1.0, 0.0, None)
    assert 0.99 < (read.low or 0) <= 1.0


def test_some_late_samples_make_the_interval_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(lambda number: number % 10 == 0, 2 * gil_sampler.LATE_S)
    read = by_clock(clock, monkeypatch)
    assert (read.share, read.late) == (1.0, pytest.approx(0.1, abs=0.01))
    assert read.low == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("by", [2 * gil_sampler.LATE_S, EVERY, 50 * EVERY])
def test_with_too_many_late_samples_the_utilisation_is_unknown(
    by: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = by_clock(Clock(lambda number: number % 3 == 0, by), monkeypatch)
    assert (read.share, str(read.why).endswith(gil_sampler.TOO_LATE)) == (None, True)


@pytest.mark.parametrize("every_s", [0.001, 0.05])
def test_with_samples_late_by_a_real_clock_the_utilisation_is_unknown(
    every_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep, began, stalled = time.sleep, time.monotonic(), threading.Event()

    def stalls(seconds: float) -> None:
        elapsed = time.monotonic() - began
        is_stall = elapsed % (2 * every_s) < every_s
        sleep(seconds + every_s if is_stall else seconds)
        if elapsed > 0.3:
            stalled.set()

    monkeypatch.setattr(gil_sampler.time, "sleep", stalls)
    gil = SimulatedGil(locked=1)
    with GilSampler(gil.facts) as sampler:
        assert stalled.wait(20)
    assert str(sampler.between(None, None).why).endswith(gil_sampler.TOO_LATE)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, gil_sampler.NOT_REPORTED),
        ({"gil_address": None, "gil_address_error": "no Linux but darwin"}, "no Linux but darwin"),
        ({"gil_address": {"pid": os.getpid(), "address": 8}}, gil_sampler.REASONS[14]),
        ({"gil_address": {"pid": 0x3FFFFFFF, "address": 8}}, gil_sampler.REASONS[3]),
        ({"worker_gil_addresses": [{"gil_address": None, "gil_address_error": "so"}]}, "so"),
    ],
)
def test_an_unreadable_gil_is_reported_with_its_reason(facts: dict[str, Any], why: str) -> None:
    with GilSampler(facts) as sampler:
        pass
    assert sampler.between(0, 1) == sampler.during([]) == Utilisation(why=why)


def test_a_gil_with_an_implausible_value_is_not_used() -> None:
    gil = SimulatedGil(locked=5)
    with GilSampler(gil.facts) as sampler:
        pass
    assert sampler.between(0, 1).why == "layout not recognised: locked reads 5"
