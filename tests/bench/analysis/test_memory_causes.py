"""Causes in the memory: each rule on figures, its threshold, and figures that it must reject."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offload.causes import diagnosis
from offload.causes.diagnosis import NOTHING
from offload.causes.execution import GIL_SATURATED
from offload.causes.figures import Figures
from offload.causes.gains import Gain
from offload.causes.memory import ARENAS, COLLECTOR, MEMORY_LIMIT, PRELOAD_LOST
from offload.engine.application import Collector, Failing, Malloc
from offload.engine.record import MemoryLimit, Record
from tests.bench.analysis.test_application_causes import IDLE
from tests.records import record_of

BUSY = replace(
    IDLE,
    signs=replace(IDLE.signs, gil_utilisation=0.97, wait_share=0.1),
    rate=50.0,
    cores_used=1.0,
    busy_cores=1.0,
)
RECORD = record_of("run", "hypercorn", "app=shop:app", 25, "run_server", "2026-01-01")


def kinds(of: Figures, **gains: Gain) -> list[str]:
    return [cause.kind for cause in diagnosis.find(of, gains)]


def collected(share: float | None, full: int | None = 5, of: Figures = BUSY) -> Figures:
    return replace(of, collector=Collector(share, 0.07, full))


def test_the_collector_is_the_cause_from_a_share_of_the_time_on() -> None:
    [cause] = diagnosis.find(collected(0.72))
    assert (cause.kind, cause.value, cause.facts) == (COLLECTOR, 0.72, Collector(0.72, 0.07, 5))
    assert kinds(collected(0.14)) == kinds(collected(None)) == [GIL_SATURATED]
    assert kinds(collected(0.3)) == [COLLECTOR, GIL_SATURATED]  # the GIL is full without it, too
    assert kinds(collected(0.3, of=replace(BUSY, cores_used=0.5))) == [COLLECTOR]  # 60 % of it
    assert kinds(collected(0.3, of=IDLE)) == [NOTHING]  # a process that mostly waits


def test_without_a_clear_gain_the_gil_is_also_full_and_a_cause_without_one_is_last() -> None:
    clear, unclear, refuted = (
        Gain("gc.freeze()", ratio, ratio - 0.2, ratio + 0.2) for ratio in (2.0, 1.2, 1.0)
    )
    assert kinds(collected(0.6)) == kinds(collected(0.6), collector=clear) == [COLLECTOR]
    assert kinds(collected(0.6), collector=unclear) == [COLLECTOR, GIL_SATURATED]
    assert kinds(collected(0.6), collector=refuted) == [GIL_SATURATED, COLLECTOR]


def test_a_single_full_collection_may_be_the_first_one_after_the_import() -> None:
    assert kinds(collected(0.3, full=1)) == [GIL_SATURATED]
    gain = Gain("gc.freeze()", 1.9, 1.7, 2.1)
    assert kinds(collected(0.3, full=1), collector=gain) == [COLLECTOR, GIL_SATURATED]
    assert kinds(collected(0.3, full=0)) == [COLLECTOR, GIL_SATURATED]  # young objects


def test_a_call_of_gc_collect_is_removed_not_made_faster() -> None:
    caller = "purge (shop.py:7)"
    called = Collector(0.4, 0.07, 1, called=0.3, caller=caller)
    [cause, _] = diagnosis.find(replace(BUSY, collector=called))
    assert cause.kind == COLLECTOR
    assert caller in diagnosis.sentence(cause, 25)
    assert diagnosis.remedy(cause).startswith("remove that call")
    [rule] = (each for each in diagnosis.RULES if each.kind == COLLECTOR)
    assert rule.switch(cause) is None
    rarely = diagnosis.find(replace(BUSY, collector=replace(called, called=0.1, full=5)))
    assert "gc.freeze()" in diagnosis.remedy(rarely[0])


def allocates(
    faults: float | None = 390_000.0,
    arenas: int = 14,
    free_mib: float = 9.0,
    peak_mib: float = 700.0,
    **values: Any,
) -> Figures:
    own = replace(BUSY.signs, worker_private_mib=200.0)
    malloc = Malloc(arenas, free_mib, peak_mib)
    of = replace(BUSY, malloc=malloc, page_faults=faults, signs=own)
    return replace(of, **values)


FASTER = Gain("MALLOC_ARENA_MAX=2", 3.6, 3.3, 3.9)
SMALLER = Gain("MALLOC_ARENA_MAX=2", 1.0, 0.97, 1.03, 955.0, 643.0, 600.0)


def test_arenas_are_a_cause_only_if_the_measured_gain_is_clear() -> None:
    suspected = allocates(60_000.0)
    assert kinds(suspected) == [GIL_SATURATED]
    assert kinds(suspected, arenas=replace(FASTER, low=0.9)) == [GIL_SATURATED]
    assert kinds(suspected, arenas=FASTER) == [ARENAS]
    assert kinds(suspected, arenas=SMALLER) == [ARENAS, GIL_SATURATED]


def test_extreme_figures_show_arenas_unless_a_measurement_refutes_them() -> None:
    assert kinds(allocates()) == [ARENAS]
    assert kinds(allocates(), arenas=replace(FASTER, low=0.9)) == [ARENAS]  # two noisy rounds
    assert kinds(allocates(), arenas=replace(FASTER, ratio=1.05, low=0.9)) == [GIL_SATURATED]
    kept = allocates(1000.0, free_mib=70.0)
    [_, arenas] = diagnosis.find(kept)
    assert diagnosis.sentence(arenas, 25) == (
        "Threads allocate from 14 arenas of glibc's malloc, which keep 70 MiB free after the load; "
        "set MALLOC_ARENA_MAX=2 in the server's environment."
    )
    vain = replace(FASTER, ratio=1.02, low=0.9)
    *_, last = diagnosis.find(kept, {ARENAS: vain})  # what it keeps is a fact
    assert (last.kind, last.value, last.threshold) == (ARENAS, 70.0, 64.0)
    assert "as MALLOC_ARENA_MAX=2 gains nothing" in diagnosis.sentence(last, 25)
    assert kinds(kept, arenas=FASTER) == [ARENAS]
    both = allocates(free_mib=70.0)
    assert kinds(both) == [ARENAS]
    assert kinds(both, arenas=vain) == [GIL_SATURATED, ARENAS]
    assert "keep 70 MiB free after the load" in diagnosis.sentence(
        diagnosis.find(both, {ARENAS: vain})[-1], 25
    )
    unknown = replace(kept, signs=replace(kept.signs, worker_private_mib=None))
    assert kinds(unknown) == [GIL_SATURATED]
    assert kinds(allocates(arenas=7)) == kinds(allocates(99_000.0)) == [GIL_SATURATED]


@pytest.mark.parametrize(
    ("of", "is_suspected"),
    [
        (allocates(), True),
        (allocates(49_000.0), False),
        (allocates(busy_cores=0.4), False),  # it mostly waits
        (allocates(arenas=2), False),
        (allocates(peak_mib=2.0), False),  # large blocks, which are in no arena
        (allocates(None), False),
        (allocates(1000.0, free_mib=70.0), True),
        (allocates(1000.0, free_mib=60.0), False),
        (
            allocates(1000.0, free_mib=70.0, signs=replace(BUSY.signs, worker_private_mib=900)),
            False,
        ),
        (replace(BUSY, malloc=Malloc()), False),
    ],
)
def test_arenas_are_suspected_by_page_faults_or_by_what_they_keep(
    of: Figures, is_suspected: bool
) -> None:
    assert (kinds(of, arenas=FASTER) == [ARENAS]) is is_suspected


def limited(*limits: MemoryLimit, error: str | None = None) -> Figures:
    """Return figures of records with these limits."""
    records: list[Record] = [
        replace(
            RECORD,
            resources=replace(RECORD.resources, memory_limit=each),
            application=replace(RECORD.application, failing=Failing(error)),
        )
        for each in limits
    ]
    return replace(IDLE, records=records)


GROUP = MemoryLimit("its control group", 512.0, 300.0, 0, 0.0)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (limited(GROUP), None),
        (limited(MemoryLimit(swap_mib=0.0)), None),
        (limited(MemoryLimit(swap_mib=15.0)), None),
        (limited(MemoryLimit(swap_mib=48.0)), "48 MiB of the server's memory were swapped out"),
        (
            limited(GROUP, replace(GROUP, kills=2)),
            "the kernel killed 2 processes at the memory limit, 512 MiB of its control group",
        ),
        (
            limited(replace(GROUP, used_mib=490.0)),
            "the server uses 490 of the 512 MiB of its control group",
        ),
        (limited(replace(GROUP, used_mib=480.0)), None),
        (
            limited(MemoryLimit("ulimit -v", 800.0, 700.0), error="MemoryError:  (shop.py:3)"),
            "the server uses 700 of the 800 MiB of ulimit -v",
        ),
        (limited(MemoryLimit("ulimit -v", 800.0, 700.0), error="ValueError: no"), None),
        (limited(MemoryLimit(), error="MemoryError: "), None),  # a huge allocation
    ],
)
def test_a_limit_of_memory_that_is_reached_is_named_with_its_numbers(
    of: Figures, text: str | None
) -> None:
    found = diagnosis.find(of)
    assert [each.kind for each in found] == [NOTHING if text is None else MEMORY_LIMIT]
    if text is not None:
        assert diagnosis.clause(found[0], 8) == text


def test_preload_is_lost_if_collections_copied_what_workers_shared() -> None:
    lost = replace(IDLE, collector=Collector(0.01, 0.05, 1, 120.0))
    [cause] = diagnosis.find(lost)
    assert (cause.kind, cause.value) == (PRELOAD_LOST, 120.0)
    assert "preload=freeze" in diagnosis.sentence(cause, 8)
    assert kinds(replace(IDLE, collector=Collector(0.01, 0.05, 1, 4.0))) == [NOTHING]
    assert kinds(replace(IDLE, collector=Collector(0.01, 0.05, 1))) == [NOTHING]  # not forked


def test_preload_is_lost_if_the_use_of_objects_copied_what_workers_shared() -> None:
    [cause] = diagnosis.find(replace(IDLE, collector=Collector(0.01, 0.05, 1, 2.0, 90.0, 120.0)))
    assert (cause.kind, cause.value) == (PRELOAD_LOST, 88.0)
    assert "reference count" in diagnosis.clause(cause, 8)
    assert "gc.freeze" not in diagnosis.remedy(cause)  # that would not help
    assert kinds(replace(IDLE, collector=Collector(0.01, 0.05, 1, 2.0, 40.0, 60.0))) == [NOTHING]
    large = Collector(0.01, 0.05, 1, 2.0, 90.0, 800.0)  # most of it is still shared
    assert kinds(replace(IDLE, collector=large)) == [NOTHING]
