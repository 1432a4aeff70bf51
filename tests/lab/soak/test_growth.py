"""Growth counts what processes gain while they live, not that they are killed and replaced."""

from __future__ import annotations

import random

import pytest

from lab.soak.growth import Series
from lab.soak.readings import Identity, ProcessReading

SERVER, WORKERS = (1, 0.0), 4
START_S, LIFE_S = 5.0, 20
MIB = 1024  # KiB


def worker(at: int, number: int, leak_kib: int) -> tuple[Identity, ProcessReading]:
    """A worker that is replaced every LIFE_S; it warms up for 3 s, and then leaks."""
    age = (at + number * 5) % LIFE_S
    born = float(at - age)
    return (2 + number, born), ProcessReading(
        10 * MIB + min(age, 3) * 2 * MIB + leak_kib * age, 8, 2
    )


def soaked(leak_kib: int, server_leak_kib: int = 0) -> Series:
    """Readings of 10 minutes; all processes are warm at the first one that counts."""
    rng, series = random.Random(1), Series(START_S)
    for at in range(660):
        server = ProcessReading(30 * MIB + server_leak_kib * at + rng.randrange(64), 20, 3)
        series.add(at, {SERVER: server, **dict(worker(at, n, leak_kib) for n in range(WORKERS))})
        if at == 60:
            series.drop_warm_up()
    return series


def test_workers_that_are_replaced_do_not_grow() -> None:
    found = soaked(leak_kib=0).memory()
    assert found is not None
    assert -0.1 < found.low <= found.high < 0.1


def test_a_leak_of_the_server_is_its_growth() -> None:
    found = soaked(leak_kib=0, server_leak_kib=100).memory()
    assert found is not None
    assert (found.low + found.high) / 2 == pytest.approx(100 * 1024 * 60 / 1e6, rel=0.02)


def test_a_leak_of_workers_is_their_growth_without_their_start() -> None:
    found = soaked(leak_kib=100).memory()
    assert found is not None
    counted = WORKERS * (LIFE_S - START_S - 1) / LIFE_S
    assert found.slope == pytest.approx(counted * 100 * 1024 * 60 / 1e6, rel=0.1)


def test_totals_do_not_depend_on_when_readings_count() -> None:
    series = soaked(leak_kib=0)
    assert (series.at[0], series.at[-1], len(series.at)) == (60, 659, 600)
    assert {each.descriptors for each in series.all} == {20 + 8 * WORKERS}
    descriptors, threads = series.descriptors(), series.threads()
    assert descriptors is not None
    assert threads is not None
    assert (descriptors.slope, threads.slope) == (0, 0)
